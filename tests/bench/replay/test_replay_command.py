"""`foreword bench replay` as typed: its table, its rows, and what it refuses."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.replay.command import replay
from bench.replay.fleet import ROUTERS
from bench.replay.policies import POLICIES

# Mooncake's published traces, where a developer has them.
TRACES = Path(os.environ.get("FOREWORD_TEST_TRACES", Path(__file__).parents[4] / "shared/traces"))
ALL_POLICIES = [part for name in POLICIES for part in ("--policy", name)]


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(replay, [str(argument) for argument in arguments])


def _told(*arguments: object) -> dict[str, Any]:
    result = _run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def _rates(told: dict[str, Any]) -> dict[tuple[str, int], float]:
    return {(row["policy"], row["capacity_pages"]): row["hit_rate"] for row in told["policies"]}


def test_rates_grow_with_room_up_to_the_bound() -> None:
    """Belady is above all others at every capacity, none is above the bound, which one row has."""
    told = _told("--synthetic", 1500, *ALL_POLICIES, "--capacities", "50,400,9000")
    rates, bound = _rates(told), told["bound"]
    for policy in POLICIES:
        own = [rates[policy, capacity] for capacity in (50, 400, 9000)]
        assert own[0] <= own[1] <= own[2] <= bound
        assert all(rates["belady", c] >= rates[policy, c] for c in (50, 400, 9000))
    assert rates["unbounded", None] == rates["belady", 9000] == bound  # type: ignore[index]
    assert told["simulated"] is True


def test_tiers_add_up_to_an_lru_as_large_as_the_last() -> None:
    """Each tier holds what those above it hold."""
    told = _told("--synthetic", 1500, "--capacities", "3000", "--tiers", "100,800,3000")
    [lru] = [row for row in told["policies"] if row["policy"] == "lru"]
    assert sum(row["hit_tokens"] for row in told["tiers"]) == lru["hit_tokens"]
    assert [row["tier"] for row in told["tiers"]] == ["G1", "G2", "G3"]


def test_bounded_memory_changes_no_figure() -> None:
    """All but Belady, which must know the future."""
    asked = ("--synthetic", 1500, "--policy", "lru", "--capacities", "64,512", "--tiers", "64,700")
    one, other = _told(*asked), _told(*asked, "--bounded")
    assert [one[part] for part in ("policies", "tiers", "bound")] == [
        other[part] for part in ("policies", "tiers", "bound")
    ]
    refused = _run("--synthetic", 10, "--bounded")
    assert (refused.exit_code, "--capacities" in refused.output) == (2, True)


def test_a_fleet_alone_says_how_much_was_asked() -> None:
    told = _told("--synthetic", 200, "--policy", "none", "--replicas", 2, "--router", "session")
    assert told["requests"] == 200
    assert told["input_tokens"] == told["fleet"][0]["input_tokens"] > 0


def test_a_fleet_finds_less_than_one_cache_of_its_size() -> None:
    """Round robin finds the least; one replica finds what a lone cache finds, by every router."""
    one = _told("--synthetic", 1500, "--capacities", 400, "--replicas", 1, "--replica-pages", 400)
    lone = _rates(one)["lru", 400]
    assert {row["hit_rate"] for row in one["fleet"]} == {lone}
    four = _told("--synthetic", 1500, "--capacities", 1600, "--replicas", 4, "--replica-pages", 400)
    rates = {row["router"]: row["hit_rate"] for row in four["fleet"]}
    assert set(rates) == set(ROUTERS)
    assert all(rate <= four["bound"] for rate in rates.values())
    assert rates["round-robin"] == min(rates.values())
    assert rates["session"] > rates["round-robin"]


def test_larger_pages_and_whole_pages_find_less() -> None:
    """What is shared is cut to whole pages, and answers take room from prompts."""
    asked = ("--synthetic", 1500, "--block-tokens", 16, "--capacities", 2000)
    fine = _told(*asked)
    coarse = _told(*asked, "--page-tokens", 64)
    whole = _told(*asked, "--page-tokens", 64, "--whole-pages")
    answered = _told(*asked, "--answers")
    assert fine["bound"] > coarse["bound"] >= whole["bound"]
    assert _rates(answered)["lru", 2000] < _rates(fine)["lru", 2000]
    refused = _run(*asked, "--page-tokens", 24)
    assert (refused.exit_code, "no multiple" in refused.output) == (2, True)


def test_second_half_scores_a_warm_cache() -> None:
    """Half the requests are counted; what the others left is found."""
    told = _told("--synthetic", 1000, "--second-half", "--capacities", 3000, *ALL_POLICIES)
    assert told["requests"] == 500
    assert {row["requests"] for row in told["policies"]} == {500}


def test_rows_are_left_for_plots(tmp_path: Path) -> None:
    """`rows.jsonl` has what the table has; text and jsonl say the same."""
    result = _run("--synthetic", 300, "--out", tmp_path, "--replicas", 2, "--tiers", "5,50")
    assert result.exit_code == 0, result.output
    assert "No engine was asked." in result.stdout
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    lines = _run("--synthetic", 300, "--replicas", 2, "--tiers", "5,50", "--format", "jsonl")
    assert [json.loads(line) for line in lines.stdout.splitlines()] == rows
    assert {"policy", "capacity_tokens", "hit_tokens", "input_tokens", "hit_rate", "bound"} <= set(
        rows[0]
    )


def test_what_moves_is_a_bound_that_is_marked(tmp_path: Path) -> None:
    """Only where the source knows text by itself, and never as something to be had."""
    texts = ["First document. " * 40, "Second text. " * 50]
    log = tmp_path / "log.jsonl"
    with log.open("w") as file:
        for order in (texts, texts[::-1]):
            messages = [{"role": "user", "content": text} for text in order]
            file.write(json.dumps({"model": "m", "messages": messages}) + "\n")
    told = _told(log, "--moved")
    [moved] = told["moved"]
    assert moved["hit_rate"] > told["bound"]
    assert (moved["usable"], moved["note"]) == (False, "not usable with SGLang today")
    refused = _run("--synthetic", 10, "--moved")
    assert (refused.exit_code, "chained ids only" in refused.output) == (2, True)


def test_refusals_are_one_sentence(tmp_path: Path) -> None:
    """No trace, two traces, one without blocks, one whose ids aren't chained, an empty one."""
    azure = tmp_path / "a.csv"
    azure.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,5,1\n")
    loose = tmp_path / "loose.jsonl"
    row = {"timestamp": 0, "input_length": 1024, "output_length": 1}
    loose.write_text("".join(json.dumps({**row, "hash_ids": i}) + "\n" for i in ([1, 2], [2, 1])))
    for arguments, said in (
        ((), "name a trace file"),
        ((azure, "--synthetic", 5), "name a trace file"),
        ((azure,), "nothing tells what its requests share"),
        ((loose,), "must stand for a block and all before it"),
        ((loose, "--capacities", "0"), "whole numbers from 1 on"),
    ):
        result = _run(*arguments)
        assert (result.exit_code, said in " ".join(result.output.split())) == (2, True), said
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert _told(empty, "--trace-format", "mooncake")["bound"] is None


@pytest.mark.skipif(not TRACES.is_dir(), reason="Mooncake's traces are not here")
def test_published_figures_come_out_again() -> None:
    """Of all prompt tokens of the synthetic trace 65.1 % could be found; LRU and Belady by room."""
    told = _told(TRACES / "mooncake_synthetic.jsonl", "--capacities", "1600,12800")
    rates = _rates(told)
    assert told["bound"] == pytest.approx(0.6512, abs=1e-4)
    assert rates["lru", 1600] / rates["belady", 1600] == pytest.approx(0.362, abs=1e-3)
    assert rates["belady", 12800] == told["bound"]
