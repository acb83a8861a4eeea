"""When requests are sent: by rate, by burst, by the trace's own times."""

import statistics
from itertools import pairwise

import pytest

from bench.errors import WorkloadError
from bench.load.send_times import chains_of, in_order_of_time, send_times_s
from bench.run_folder import Load
from bench.workloads.file import WorkloadRequest, asked


def request(
    name: str, *, session: str | None = None, turn: int = 0, at_s: float | None = None
) -> WorkloadRequest:
    return asked(
        {"messages": []}, id=name, session=session, turn=turn, at_s=at_s, max_tokens=1
    )  # fmt: skip


MANY = chains_of([request(str(number)) for number in range(20_000)])


def gaps(load: Load) -> list[float]:
    times = send_times_s(load, MANY, 1)
    assert times is not None
    return [later - earlier for earlier, later in pairwise(times)]


def test_a_session_is_one_chain() -> None:
    mixed = [
        request("a0", session="a"),
        request("x"),
        request("a1", session="a", turn=1),
        request("y"),
    ]
    assert [[r.id for r in chain] for chain in chains_of(mixed)] == [["a0", "a1"], ["x"], ["y"]]


def test_a_closed_loop_has_no_times() -> None:
    assert send_times_s(Load(kind="closed", concurrency=2), MANY, 1) is None


def test_a_constant_rate_has_equal_gaps_from_0_on() -> None:
    times = send_times_s(Load(kind="constant", rate_per_s=4), MANY[:3], 1)
    assert times == [0.0, 0.25, 0.5]


@pytest.mark.parametrize(
    ("load", "spread"),
    [
        (Load(kind="poisson", rate_per_s=50), 1.0),
        (Load(kind="gamma", rate_per_s=50, burstiness=0.25), 2.0),
        (Load(kind="gamma", rate_per_s=50, burstiness=4), 0.5),
    ],
)
def test_gaps_have_the_rates_mean_and_the_bursts_spread(load: Load, spread: float) -> None:
    drawn = gaps(load)
    assert statistics.fmean(drawn) == pytest.approx(1 / 50, rel=0.05)
    assert statistics.stdev(drawn) / statistics.fmean(drawn) == pytest.approx(spread, rel=0.06)


def test_times_follow_from_the_seed_alone() -> None:
    load = Load(kind="poisson", rate_per_s=9)
    assert send_times_s(load, MANY, 1) == send_times_s(load, MANY, 1)
    assert send_times_s(load, MANY, 1) != send_times_s(load, MANY, 2)


def test_a_traces_own_times_can_be_shortened() -> None:
    chains = chains_of([request("b", at_s=6.0), request("a", at_s=2.0)])
    times = send_times_s(Load(kind="trace", speedup=2), chains, 1)
    assert times == [3.0, 1.0]
    assert [chain[0].id for _, chain in in_order_of_time(chains, times)] == ["a", "b"]


def test_without_times_of_its_own_a_workload_has_no_trace() -> None:
    with pytest.raises(WorkloadError, match="no times of its own"):
        send_times_s(Load(kind="trace"), MANY[:1], 1)
