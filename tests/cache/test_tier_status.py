import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.errors import TierAnswerError
from cache.tier_status import (
    AdapterState,
    LoadedChunks,
    LoadedRun,
    parse_loaded_chunks,
    parse_tier_status,
)
from cache.usage import Tier


@pytest.fixture
def status(captured: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((captured / "tier_status.json").read_text())
    return answer


def parsed(answer: object) -> Any:
    return parse_tier_status(json.dumps(answer).encode())


def test_a_real_answer_is_read(status: dict[str, Any]) -> None:
    read = parsed(status)

    ssd, redis = read.adapters
    assert (ssd.name, ssd.tier, ssd.state, ssd.enabled) == (
        "ssd",
        Tier.SSD,
        AdapterState.OFF,
        False,
    )
    assert ssd.reason == "slower than recomputing"
    assert (redis.tier, redis.state, redis.reason) == (Tier.REDIS, AdapterState.OK, None)
    assert (read.chunk_tokens, read.chunk_bytes) == (64, 524288)
    assert redis.loads.bytes == redis.loads.chunks * read.chunk_bytes
    assert redis.loads.seconds > 0
    assert read.ram.chunks >= ssd.loads.chunks + redis.loads.chunks
    assert set(read.evictions) == {"ram", "ssd", "redis"}


def test_the_size_of_a_chunk_is_unknown_before_an_engine_has_registered(
    status: dict[str, Any],
) -> None:
    assert parsed(status | {"chunk_bytes": None}).chunk_bytes is None


def test_an_adapter_that_is_none_of_our_tiers_has_no_tier(status: dict[str, Any]) -> None:
    status["adapters"][0]["name"] = "s3"

    assert parsed(status).adapters[0].tier is None


@pytest.mark.parametrize("name", ["instance", "ram", "adapters", "salts", "chunk_tokens"])
def test_an_answer_without_a_part_is_refused_by_its_name(status: dict[str, Any], name: str) -> None:
    del status[name]

    with pytest.raises(TierAnswerError, match=name):
        parsed(status)


@pytest.mark.parametrize("wrong", [-1, 1.5, "7", None, True])
def test_a_count_that_is_none_is_refused(status: dict[str, Any], wrong: object) -> None:
    status["adapters"][1]["loads"]["bytes"] = wrong

    with pytest.raises(TierAnswerError, match="count"):
        parsed(status)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"\xff", b'{"adapters": 3}'])
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    for parse in (parse_tier_status, parse_loaded_chunks):
        with pytest.raises(TierAnswerError, match=r"foreword_guard\.tier"):
            parse(body)


def loaded(*runs: tuple[Tier, int]) -> LoadedChunks:
    """Runs of so many chunks, from token 64 on."""
    at, made = 64, []
    for tier, chunks in runs:
        made.append(LoadedRun(tier=tier, start=at, stop=at + 64 * chunks))
        at = made[-1].stop
    return LoadedChunks(start=64, stop=at, runs=tuple(made))


def test_what_the_engine_held_itself_does_not_count() -> None:
    load = loaded((Tier.SSD, 2), (Tier.RAM, 1))

    assert load.tokens() == {Tier.RAM: 64, Tier.SSD: 128, Tier.REDIS: 0}
    assert load.tokens(held_tokens=112) == {Tier.RAM: 64, Tier.SSD: 80, Tier.REDIS: 0}


tiers = st.sampled_from([Tier.RAM, Tier.SSD, Tier.REDIS])


@given(st.lists(st.tuples(tiers, st.integers(1, 5)), min_size=1), st.integers(64, 2000))
def test_the_tiers_add_up_to_what_is_beyond_the_engines_own(
    runs: list[tuple[Tier, int]], held: int
) -> None:
    load = loaded(*runs)

    assert sum(load.tokens(held_tokens=held).values()) == max(0, load.stop - held)


def answer_of(load: LoadedChunks) -> dict[str, Any]:
    runs = [{"tier": run.tier.value, "start": run.start, "stop": run.stop} for run in load.runs]
    return {"start": load.start, "stop": load.stop, "runs": runs, "ram": 0, "ssd": 0, "redis": 0}


@given(st.lists(st.tuples(tiers, st.integers(1, 5)), min_size=1))
def test_a_load_is_read_as_it_was_told(runs: list[tuple[Tier, int]]) -> None:
    load = loaded(*runs)

    assert parse_loaded_chunks(json.dumps(answer_of(load)).encode()) == load


@pytest.mark.parametrize(
    "change",
    [
        {"stop": 320},
        {"start": 0},
        {"runs": []},
        {"runs": [{"tier": "gpu", "start": 64, "stop": 192}]},
        {"runs": [{"tier": "tape", "start": 64, "stop": 192}]},
        {"runs": [{"tier": "ram", "start": 64, "stop": 64}]},
    ],
)
def test_runs_that_dont_make_a_load_are_refused(change: dict[str, Any]) -> None:
    answer = answer_of(loaded((Tier.RAM, 2))) | change

    with pytest.raises(TierAnswerError):
        parse_loaded_chunks(json.dumps(answer).encode())
