"""What lines come to, by hand and against a plain sum; unknown never becomes 0."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.metrics import Targets, goodput, hit_rates, summarise, summarise_phases
from bench.run_folder import RequestLine


def line(name: str = "a", sent_s: float = 0.0, **fields: Any) -> RequestLine:
    """Sent at `sent_s`, first token 0.1 s later, four 0.1 s apart, usage 0.1 s after the last."""
    held: dict[str, Any] = {
        "scheduled_s": sent_s,
        "sent_s": sent_s,
        "first_token_s": sent_s + 0.1,
        "last_token_s": sent_s + 0.4,
        "done_s": sent_s + 0.5,
        "chunk_s": (0.0, 0.1, 0.2, 0.3),
        "status": 200,
        "prompt_tokens": 100,
        "output_tokens": 4,
        "cached_tokens": 64,
    }
    return RequestLine(id=name, **held | fields)


FAILED = line("f", status=503, error="HTTP 503: busy", cached_tokens=None, chunk_s=())


def test_times_are_those_of_the_definitions() -> None:
    made = summarise([line(), line(sent_s=1.0)])
    for distribution, wanted in (
        (made.ttft, 0.1),
        (made.itl, 0.1),
        (made.tpot, 0.4 / 3),
        (made.e2e, 0.5),
    ):
        assert distribution.p50 is not None
        assert distribution.p50.value == pytest.approx(wanted)
    assert (made.ttft.n, made.itl.n) == (2, 6)


def test_throughput_is_over_the_time_from_first_to_last() -> None:
    made = summarise([line(), line(sent_s=1.5)])
    assert made.duration_s == pytest.approx(2.0)
    throughput = made.throughput
    assert throughput.requests_per_s == pytest.approx(1.0)
    assert throughput.input_tokens_per_s == pytest.approx(100)
    assert throughput.output_tokens_per_s == pytest.approx(4)
    assert throughput.total_tokens_per_s == pytest.approx(104)


def test_a_rate_with_unknown_tokens_is_unknown() -> None:
    throughput = summarise([line(), line(output_tokens=None)]).throughput
    assert throughput.output_tokens_per_s is None
    assert throughput.total_tokens_per_s is None
    assert throughput.input_tokens_per_s is not None
    assert throughput.unknown == 1


def test_failures_are_counted_by_their_words_and_have_no_times() -> None:
    made = summarise([line(), FAILED, FAILED])
    assert (made.requests, made.failed) == (3, 2)
    assert made.errors == {"HTTP 503: busy": 2}
    assert made.ttft.n == 1


def test_nothing_answered_is_nothing_known() -> None:
    made = summarise([line(status=None, error="no connection", sent_s=0.0, done_s=None)])
    assert made.duration_s is None
    assert made.throughput.requests_per_s is None
    assert made.hits.rate is None
    assert made.ttft.mean is None


def test_phases_stay_apart_and_cold_comes_first() -> None:
    made = summarise_phases([line(), line("b", phase="cold", cached_tokens=0)])
    assert [(each.phase, each.hits.rate) for each in made] == [("cold", 0.0), ("warm", 0.64)]


def test_waiting_for_a_slot_is_told() -> None:
    made = summarise([line(sent_s=2.0, scheduled_s=0.5)])
    assert made.queued.p99 is not None
    assert made.queued.p99.value == pytest.approx(1.5)


KNOWN = st.one_of(st.none(), st.integers(0, 100))


@given(st.lists(st.tuples(KNOWN, st.integers(100, 200)), max_size=20))
def test_a_hit_rate_is_tokens_over_tokens_where_both_are_known(
    pairs: list[tuple[int | None, int]],
) -> None:
    made = hit_rates([line(cached_tokens=c, prompt_tokens=p) for c, p in pairs])
    known = [(cached, prompt) for cached, prompt in pairs if cached is not None]
    assert made.unknown == len(pairs) - len(known)
    if known:
        wanted = sum(cached for cached, _ in known) / sum(prompt for _, prompt in known)
        assert made.rate == pytest.approx(wanted)
    else:
        assert made.rate is None


def test_tiers_are_shares_of_prompts_whose_tiers_are_told() -> None:
    made = hit_rates(
        [
            line(by_tier={"gpu": 48, "ram": 16, "ssd": None}),
            line(cached_tokens=0, by_tier=None),
            line(cached_tokens=64, by_tier=None),
        ]
    )
    assert made.by_tier == {"gpu": 0.24, "ram": 0.08}
    assert made.tier_unknown == 1


def test_an_ideal_is_known_or_not_for_itself() -> None:
    made = hit_rates([line(ideal_tokens=80), line()])
    assert (made.ideal, made.ideal_unknown) == (0.8, 1)


TARGETS = Targets(ttft_s=0.15, tpot_s=0.15, e2e_s=1.0)


@pytest.mark.parametrize(
    ("fields", "met", "unknown"),
    [
        ({}, 1, 0),
        ({"first_token_s": 0.2}, 0, 0),
        ({"output_tokens": 2}, 0, 0),
        ({"done_s": 1.2}, 0, 0),
        ({"output_tokens": None}, 0, 1),
        ({"output_tokens": 1}, 1, 0),
        ({"output_tokens": None, "first_token_s": 0.2}, 0, 0),
        ({"status": 500}, 0, 0),
    ],
)
def test_goodput_wants_every_target_met(fields: dict[str, Any], met: int, unknown: int) -> None:
    made = goodput([line(**fields)], TARGETS, duration_s=2.0)
    assert (made.met, made.unknown, made.requests) == (met, unknown, 1)
    assert made.per_s == pytest.approx(met / 2)


def test_without_targets_there_is_no_goodput() -> None:
    assert summarise([line()]).goodput is None
