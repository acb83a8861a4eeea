"""Experiments with real parts: a gateway before a simulated engine, asked by the load generator."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.compare.command import compare
from bench.engine_sim import SimulatorConfig, SimulatorThread
from bench.experiments.command import RESULTS, main
from bench.experiments.contents import Sizes, prefix_repetition
from bench.experiments.layouts import Layout, laid_out
from bench.run_folder import read_run
from bench.workloads import write_workload
from tests.bench.conftest import FAST

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _shared_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run counts here however late its generator is."""
    monkeypatch.setattr("bench.experiments.run._SIMULATED_LAG_S", 60.0)


def _ran(name: str, folder: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(
        main, [name, "--rounds", "2", "--no-html", "--out", str(folder), *options]
    )
    return done.exit_code, done.stdout


def test_a_clock_at_the_top_costs_re_use(tmp_path: Path) -> None:
    status, page = _ran("byte-stable", tmp_path / "made", "--requests", "8")
    assert status == 0, page
    assert "The engine was **simulated**" in page
    assert "| **more re-use** |" in page
    run = read_run(tmp_path / "made" / "document-qa" / "scaffold-first" / "1")
    assert run.facts.target.simulated
    assert run.facts.labels["arm"] == "scaffold-first"
    assert run.facts.command.startswith("python -m bench.experiments byte-stable")
    assert str(tmp_path) not in (run.folder / "run.json").read_text()
    assert any(line.cached_tokens for line in run.requests)
    again = read_run(tmp_path / "made" / "document-qa" / "scaffold-first" / "2")
    assert all(line.ideal_tokens is None for line in again.requests)
    assert [line.cached_tokens for line in again.requests] == [
        line.cached_tokens for line in run.requests
    ]


def test_the_control_shows_no_gain(tmp_path: Path) -> None:
    status, page = _ran("no-reuse", tmp_path / "made", "--requests", "8")
    assert status == 0, page
    assert "no gain was to be shown, and none is" in page


def test_earlier_results_stay_until_there_are_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    earlier = tmp_path / RESULTS / "compare-no-reuse" / "report.md"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("as it was")
    unusable = ("--real", "--model", str(tmp_path / "nowhere"))
    failed = CliRunner().invoke(main, ["no-reuse", "--no-html", "--rounds", "1", *unusable])
    assert failed.exit_code == 3, failed.output
    assert earlier.read_text() == "as it was"
    sizes = ("--rounds", "1", "--requests", "4")
    made = CliRunner().invoke(main, ["no-reuse", "--no-html", *sizes])
    assert made.exit_code == 0, made.output
    assert earlier.read_text() == made.stdout.removesuffix("\n")
    assert [folder.name for folder in (tmp_path / RESULTS).iterdir()] == ["compare-no-reuse"]


def test_two_engines_are_asked_in_turns(tmp_path: Path, model_path: Path) -> None:
    """`--run`: the same engine behind both URLs re-uses as much for both, and the same twice."""
    workload = tmp_path / "w.jsonl"
    asked = prefix_repetition(Sizes(requests=8, prefixes=2, prefix_words=60))
    write_workload(workload, laid_out("w", asked, Layout.SCAFFOLD_FIRST, max_tokens=4, seed=1))
    config = SimulatorConfig(model_path=model_path, served_model_name="sim", clock=FAST)
    with SimulatorThread(config) as one, SimulatorThread(config) as other:
        done = CliRunner().invoke(
            compare,
            [
                "--run", one.url, other.url, "--workload", str(workload), "--rounds", "2",
                "--out", str(tmp_path / "out"), "--phase", "cold", "--format", "json",
                "--", "--concurrency", "1", "--flush", "--max-lag-ms", "60000",
            ],
        )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["rounds"] == [2, 2]
    (re_used,) = [each for each in told["by_request"] if each["name"] == "re-used tokens"]
    assert re_used["paired"]["difference"] == 0
    assert re_used["paired"]["a"] > 0
    assert re_used["verdict"]["word"] == "no difference shown"
    assert (tmp_path / "out" / "b" / "2" / "run.json").exists()
    again = CliRunner().invoke(
        compare, [str(tmp_path / "out" / "a"), str(tmp_path / "out" / "b"), "--phase", "cold"]
    )
    assert again.exit_code == 0
    assert again.stdout.startswith("# b against a\n\nThe engine was **simulated**")


def test_unknown_experiments_and_real_page_sizes_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(compare, ["--experiment", "nothing"])
    assert done.exit_code == 2
    assert "--list tells them" in done.stderr
    done = CliRunner().invoke(main, ["page-size", "--real", "--out", str(tmp_path / "x")])
    assert done.exit_code == 3
    assert "simulated engines only" in done.stderr
