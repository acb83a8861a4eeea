"""Whatever comes from outside, parsers give a value or a known error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, survives

# Starlette leaves the file of a form that ends within it to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

_TOKENS = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\\",
    b"null",
    b"-1",
    b"1e999",
    b"\\ud800",
    b"\0",
]


@st.composite
def changed(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """A good input with a few pieces replaced, repeated or left out."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = draw(st.integers(start, min(len(data), start + 20)))
        put = draw(
            st.one_of(st.binary(max_size=6), st.sampled_from(_TOKENS), st.just(data[start:]))
        )
        data = data[:start] + put + data[stop:]
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_are_read(name: str) -> None:
    for seed in TARGETS[name][1]:
        survives(name, seed)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_changed_seeds_are_read_or_refused(name: str, data: st.DataObject) -> None:
    survives(name, data.draw(changed(TARGETS[name][1])))


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    survives(name, data)
