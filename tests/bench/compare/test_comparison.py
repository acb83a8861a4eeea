"""What may be compared, what is refused, and what is said of it."""

from pathlib import Path

import msgspec
import pytest

from bench.compare.arms import read_arm
from bench.compare.comparable import CONTENT
from bench.compare.comparison import NO_DIFFERENCE, ComparedRequests, ComparedRuns, compare_arms
from bench.compare.page import comparison_page, headline
from bench.errors import IncomparableRunsError, RunFolderError
from bench.run_folder import (
    EngineFacts,
    Load,
    Run,
    Target,
    WorkloadRef,
    write_facts,
    write_requests,
)
from tests.bench.compare.run_making import arm, line, run

A = {"1": 0.1, "2": 0.2, "3": 0.3}
B = {"1": 0.05, "2": 0.1, "3": 0.15}


def _refused(other: Run, *, varies: tuple[str, ...] = ()) -> str:
    with pytest.raises(IncomparableRunsError) as caught:
        compare_arms(arm("a", run(A)), arm("b", other), varies=varies)
    return str(caught.value)


def test_another_workload_is_refused_by_name() -> None:
    told = _refused(run(B, workload=WorkloadRef(name="w", sha256="bb" * 32, requests=3)))
    assert "their workloads differ (w aaaaaaaaaaaa and w bbbbbbbbbbbb)" in told
    assert told.count("\n") == 0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"model": "n"}, "their models differ (m and n)"),
        (
            {"load": Load(kind="poisson", rate_per_s=2.0, concurrency=1)},
            "their loads differ (closed and poisson 2/s)",
        ),
        ({"load": Load(kind="closed", concurrency=4)}, "their concurrency differs (1 and 4)"),
        ({"valid": False, "reasons": ("it lagged",)}, "b 1 was invalid (it lagged)"),
        (
            {"target": Target(url="u", kind="foreword", simulated=True)},
            "one of them had a simulated engine",
        ),
    ],
)
def test_what_differs_is_named(changed: dict[str, object], words: str) -> None:
    assert words in _refused(run(B, **changed))


def test_other_requests_and_a_missing_phase_are_refused() -> None:
    assert "different ids" in _refused(run({"1": 0.1, "4": 0.2}))
    cold = Run(
        folder=Path("1"),
        facts=run(B).facts,
        requests=tuple(msgspec.structs.replace(each, phase="cold") for each in run(B).requests),
    )
    assert "b 1 has no warm requests" in _refused(cold)


def test_a_declared_layout_needs_the_same_content() -> None:
    other = WorkloadRef(name="w.naive", sha256="bb" * 32, requests=3)
    assert "don't hold the same content" in _refused(run(B, workload=other), varies=("workload",))
    comparison = compare_arms(
        arm("a", run(A, labels={CONTENT: "c"})),
        arm("b", run(B, workload=other, labels={CONTENT: "c"})),
        varies=("workload",),
    )
    assert comparison.measure("TTFT").verdict.word == "faster"


def test_rounds_of_one_arm_must_be_alike() -> None:
    with pytest.raises(IncomparableRunsError, match="models differ"):
        compare_arms(arm("a", run(A), run(A, name="2", model="n")), arm("b", run(B)))


def test_sizes_and_the_single_round_are_told() -> None:
    comparison = compare_arms(arm("a", run(A)), arm("b", run(B)))
    told = comparison.measure("TTFT")
    assert isinstance(told, ComparedRequests)
    assert told.paired is not None
    assert told.paired.difference == pytest.approx(-0.1)
    assert told.verdict.once
    assert headline(comparison) == (
        "**b is faster**: median TTFT 200.0 ms with a, 100.0 ms with b, 2.0 times as fast. "
        "One round each: repeat it before you believe it."
    )


def test_unknown_tokens_are_unknown_not_zero() -> None:
    untold = tuple(msgspec.structs.replace(each, cached_tokens=None) for each in run(B).requests)
    other = Run(folder=Path("1"), facts=run(B).facts, requests=untold)
    comparison = compare_arms(arm("a", run(A)), arm("b", other))
    told = comparison.measure("re-used tokens")
    assert isinstance(told, ComparedRequests)
    assert told.paired is None
    assert told.verdict.word == NO_DIFFERENCE
    assert "| re-used tokens | no difference shown | unknown | unknown |" in comparison_page(
        comparison
    )


def test_failed_requests_are_left_out_and_counted() -> None:
    failed = (line("1", ttft_s=9.0, status=500, error="500"), *run(B).requests[1:])
    other = Run(folder=Path("1"), facts=run(B).facts, requests=failed)
    comparison = compare_arms(arm("a", run(A)), arm("b", other))
    told = comparison.measure("TTFT")
    assert isinstance(told, ComparedRequests)
    assert told.paired is not None
    assert (told.paired.requests, told.paired.missing) == (2, 1)
    assert "TTFT (1 not in both)" in comparison_page(comparison)


def test_flags_that_differ_are_named() -> None:
    comparison = compare_arms(
        arm("a", run(A, engine=EngineFacts(flags={"page_size": 1}))),
        arm("b", run(B, engine=EngineFacts(flags={"page_size": 64}))),
    )
    assert "page_size: 1 and 64" in comparison.also


def test_rounds_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        place = tmp_path / "arm" / str(number)
        write_facts(place, run(A).facts)
        write_requests(place, run(A).requests)
    read = read_arm(tmp_path / "arm")
    assert [each.folder.name for each in read.runs] == ["1", "9", "10"]
    assert read.runs[0].requests == run(A).requests
    assert len(read_arm(tmp_path / "arm" / "9").runs) == 1
    with pytest.raises(RunFolderError, match=r"there is no run\.json"):
        read_arm(tmp_path)


def test_a_line_that_is_no_request_is_named(tmp_path: Path) -> None:
    write_facts(tmp_path, run(A).facts)
    (tmp_path / "requests.jsonl").write_text('{"id": "1"}\n{"id": 2}\n')
    with pytest.raises(RunFolderError, match=r"requests\.jsonl, line 2"):
        read_arm(tmp_path)


def test_whole_runs_differ_only_by_more_than_rounds_of_one_arm() -> None:
    """Each round of B was faster, but A's own rounds differ by more: it may be the machine."""
    slow, fast = {"1": 1.0, "2": 1.0}, {"1": 0.9, "2": 0.9}
    busy = {id: 3 * ttft_s for id, ttft_s in slow.items()}
    busy_fast = {id: 3 * ttft_s for id, ttft_s in fast.items()}
    made = compare_arms(
        arm("a", run(slow), run(busy, name="2"), run(slow, name="3")),
        arm("b", run(fast), run(busy_fast, name="2"), run(fast, name="3")),
    )
    found = made.measure("requests")
    assert isinstance(found, ComparedRuns)
    assert found.over_rounds is not None
    assert found.over_rounds.excludes_zero
    assert found.verdict.word == NO_DIFFERENCE
    assert found.verdict.why == "within the noise of A against A"
