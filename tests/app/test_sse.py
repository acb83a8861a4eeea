"""Events come out the same however the stream was cut."""

from hypothesis import given
from hypothesis import strategies as st

from app.sse import EventReader, event

payloads = st.lists(
    st.binary(min_size=1, max_size=20).filter(lambda b: not {10, 13} & set(b)), max_size=6
)


def read(chunks: list[bytes]) -> list[bytes]:
    reader = EventReader()
    return [data for chunk in chunks for data in reader.feed(chunk)]


@given(
    data=payloads,
    cuts=st.lists(st.integers(0, 200), max_size=8),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_any_split_gives_the_same_events(data: list[bytes], cuts: list[int], line_end: str) -> None:
    stream = b"".join(event(part) for part in data).replace(b"\n", line_end.encode())
    places = sorted({min(cut, len(stream)) for cut in cuts})
    chunks = [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]
    # A final CR may be half a line end, so a last chunk of the other half settles it.
    assert read([*chunks, b"\n" if line_end == "\r" else b""]) == data


def test_comments_and_other_fields_are_passed_over() -> None:
    assert read([b": ping\n\nevent: x\nid: 3\ndata: a\ndata: b\n\nretry: 5\n\n"]) == [b"a\nb"]


def test_an_unfinished_event_waits() -> None:
    reader = EventReader()
    assert reader.feed(b"data: a\n") == []
    assert reader.feed(b"\ndata: b") == [b"a"]
