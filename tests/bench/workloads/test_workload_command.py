"""`foreword bench workload`: the same bytes in any process, and mistakes told in a sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.cli import bench
from bench.soak.model_folder import write_model_folder
from bench.workloads import read_workload

SHAREGPT = [{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes."}]}]
MOONCAKE = (
    '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'
    '{"timestamp": 250, "input_length": 700, "output_length": 5, "hash_ids": [1, 3]}\n'
)
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,48,10\n2023-11-16 18:17:04.4799600,31,8\n"
)
KNOWN = "1bb86d7a6250b7cb206a4f04cb0b70dcc30283f8caf1644b2983ee1e8277853e"
LOG = '{"messages": [{"role": "user", "content": "Who is it?"}]}\n'


def made(*words: str) -> Result:
    return CliRunner().invoke(bench, ["workload", *words])


def inputs(folder: Path) -> dict[str, list[str]]:
    """A kind of workload → its words on the command line."""
    files = {
        "chat.json": json.dumps(SHAREGPT),
        "trace.jsonl": MOONCAKE,
        "azure.csv": AZURE,
        "log.jsonl": LOG,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "documents").mkdir()
    (folder / "documents" / "one.md").write_text("The ferry leaves at nine o'clock sharp.")
    few = ["--num-prompts", "20", "--skew", "1.1"]
    gsp = ["--gsp-num-groups", "2", "--gsp-group-distribution", "zipf", "--gsp-zipf-alpha", "1"]
    return {
        "prefix": ["prefix-repetition", *few, "--tokenizer", str(write_model_folder(folder / "m"))],
        "gsp": ["generated-shared-prefix", *gsp],
        "sharegpt": ["sharegpt", str(folder / "chat.json")],
        "docqa": ["docqa", "--questions", "9", "--documents-per-question", "3", "--shuffled"],
        "folder": ["docqa", str(folder / "documents"), "--questions", "3"],
        "agents": ["agents", "--agents", "2", "--shuffled-tools"],
        "log": ["log", str(folder / "log.jsonl")],
        "trace": ["trace", str(folder / "trace.jsonl"), "--block-len", "8"],
        "arrivals": ["prefix-repetition", "--num-prompts", "2", "--arrivals",
                     str(folder / "azure.csv")],
    }  # fmt: skip


def test_every_kind_makes_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    asked = inputs(tmp_path)
    digests = []
    for number, hash_seed in enumerate(("1", "77")):
        folder = tmp_path / str(number)
        folder.mkdir()
        code = "import sys; from bench.cli import bench\n"
        for kind, words in asked.items():
            line = ["workload", *words, "--seed", "5", "-o", str(folder / kind)]
            code += f"bench({line!r}, standalone_mode=False)\n"
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "LC_ALL": "C", "TZ": "Asia/Tokyo"}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)
        digests.append({kind: (folder / kind).read_bytes() for kind in asked})
    assert digests[0] == digests[1]


def test_a_known_workload_stays_as_it_was(tmp_path: Path) -> None:
    """Another digest means that what was measured before can't be compared with what is now."""
    made("prefix-repetition", "--num-prompts", "20", "--skew", "1.1", "-o", str(tmp_path / "w"))
    assert read_workload(tmp_path / "w").header.sha256 == KNOWN


@pytest.mark.parametrize("kind", ["prefix", "gsp", "sharegpt", "docqa", "folder", "agents", "log",
                                  "trace", "arrivals"])  # fmt: skip
def test_every_kind_is_written_as_it_says(kind: str, tmp_path: Path) -> None:
    words = inputs(tmp_path)[kind]
    result = made(*words, "-o", str(tmp_path / "w.jsonl"), "--format", "json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    workload = read_workload(tmp_path / "w.jsonl")
    assert told["sha256"] == workload.header.sha256
    assert told["requests"] == len(workload.requests)
    assert str(tmp_path) not in json.dumps(workload.header.parameters)


def test_another_seed_makes_other_requests(tmp_path: Path) -> None:
    few = ["prefix-repetition", "--num-prompts", "3"]
    for seed in ("1", "2"):
        made(*few, "--seed", seed, "-o", str(tmp_path / seed))
    first, second = (read_workload(tmp_path / seed).header.sha256 for seed in ("1", "2"))
    assert first != second


def test_arrivals_come_from_the_trace(tmp_path: Path) -> None:
    made(*inputs(tmp_path)["arrivals"], "-o", str(tmp_path / "w.jsonl"))
    assert [r.at_s for r in read_workload(tmp_path / "w.jsonl").requests] == [0.0, 0.5]


@pytest.mark.parametrize(
    "words",
    [
        ["sharegpt", "bad.json"],
        ["docqa", "empty"],
        ["prefix-repetition", "--num-prompts", "3", "--arrivals", "azure.csv"],
        ["ledger", "--home", "empty"],
        ["log", "bad.json"],
        ["trace", "bad.json"],
    ],
)
def test_a_mistake_is_told_in_a_sentence(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text('{"neither": 1}\n')
    Path("azure.csv").write_text(AZURE)
    Path("empty").mkdir()
    result = made(*words, "-o", "w.jsonl")
    assert result.exit_code == 2
    assert result.stderr.startswith("foreword bench workload: ")
    assert result.stdout == ""


def test_zipf_wants_its_alpha(tmp_path: Path) -> None:
    result = made("generated-shared-prefix", "--gsp-zipf-alpha", "1", "-o", str(tmp_path / "w"))
    assert result.exit_code == 2
    assert "go together" in result.stderr


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys; from bench.cli import bench\n"
        "bench(['--help'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('numpy', 'httpx', 'cache')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert "workload" in done.stdout
    assert done.stdout.strip().endswith("[]")
