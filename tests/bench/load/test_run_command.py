"""`foreword bench run`: its table, its JSON, its exit status, and mistakes told in a sentence."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.cli import bench
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from bench.soak.model_folder import write_model_folder
from bench.workloads import Workload, write_workload


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorThread]:
    config = SimulatorConfig(
        model_path=write_model_folder(tmp_path_factory.mktemp("model")),
        served_model_name="sim",
        clock=ClockConfig(speedup=20),
    )
    with SimulatorThread(config) as running:
        yield running


@pytest.fixture
def workload(small: Workload, tmp_path: Path) -> Path:
    path = tmp_path / "w.jsonl"
    write_workload(path, small)
    return path


def ran(workload: Path, url: str, *words: str) -> Result:
    folder = str(workload.parent / "run")
    # What a busy machine makes of the generator's lag is judged elsewhere.
    given = ["run", str(workload), "--url", url, "-o", folder, "--max-lag-ms", "60000"]
    return CliRunner().invoke(bench, [*given, *words])


def test_the_table_says_that_it_is_simulated(engine: SimulatorThread, workload: Path) -> None:
    words = ["--concurrency", "2", "--flush", "--passes", "2", "--ttft-ms", "60000"]
    result = ran(workload, engine.url, *words)
    assert result.exit_code == 0, result.output
    assert "simulated: its times say nothing" in result.stdout
    for told in ("cold: 12 requests", "warm: 12 requests", "TTFT", "hit rate", "goodput"):
        assert told in result.stdout
    assert "wrote" in result.stderr


def test_json_has_everything(engine: SimulatorThread, workload: Path) -> None:
    words = ["--rate", "100", "--arrivals", "gamma", "--burstiness", "0.5", "--format", "json"]
    result = ran(workload, engine.url, *words, "--label", "arm=A", "--pool-tokens", "64")
    told = json.loads(result.stdout)
    assert told["schema_version"] == 1
    assert told["run"]["valid"] is True
    assert told["run"]["labels"] == {"arm": "A"}
    assert told["run"]["load"] == {
        "kind": "gamma", "rate_per_s": 100.0, "burstiness": 0.5, "concurrency": None,
        "speedup": None,
    }  # fmt: skip
    (summary,) = told["summaries"]
    assert summary["ttft"]["p99"]["value"] > 0
    (reuse,) = told["reuse"]
    assert reuse["pooled_lru"] < reuse["infinite"]


def test_a_run_that_does_not_count_exits_with_1(engine: SimulatorThread, workload: Path) -> None:
    bad = '{"temperature": "hot"}'
    result = ran(workload, engine.url, "--concurrency", "2", "--extra-body", bad)
    assert result.exit_code == 1
    assert "NOT VALID" in result.stdout
    assert "not valid: 12 of 12 requests failed" in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "one of --concurrency, --rate and --trace-times is needed"),
        (["--concurrency", "1", "--rate", "1"], "one of --concurrency"),
        (["--concurrency", "1", "--max-concurrency", "1"], "goes with --rate"),
        (["--concurrency", "1", "--extra-body", "["], "it is not JSON"),
        (["--concurrency", "1", "--extra-body", "1"], "it is no object"),
        (["--concurrency", "1", "--label", "arm"], "is not NAME=VALUE"),
        (["--concurrency", "1", "--api-key-env", "SURELY_NOT_SET"], "is not set"),
        (["--trace-times"], "has no times of its own"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(words: list[str], told: str, workload: Path) -> None:
    result = ran(workload, "http://127.0.0.1:9", *words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stdout == ""
    assert not (workload.parent / "run").exists()


def test_nobody_there_is_not_a_missing_model(workload: Path) -> None:
    result = ran(workload, "http://127.0.0.1:1", "--concurrency", "1")
    assert result.exit_code != 0
    assert "can't be reached" in result.stderr
    assert "--model" not in result.stderr
