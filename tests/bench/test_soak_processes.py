"""What a soak's processes are started with, and what the kernel says of one."""

import os
from pathlib import Path

import pytest

from bench.soak.model_folder import write_model_folder
from bench.soak.options import SoakOptions
from bench.soak.proc import process_state
from bench.soak.processes import gateway_environment, simulator_command

OPTIONS = SoakOptions(folder=Path("soak"), requests=1, accounting=False)


def test_the_gateway_gets_none_of_the_callers_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FOREWORD_DATABASE__URL", "postgresql://elsewhere/precious")
    found = gateway_environment(OPTIONS, tmp_path, 1234)
    assert "FOREWORD_DATABASE__URL" not in found
    assert found["FOREWORD_ENGINE__URL"] == "http://127.0.0.1:1234"
    assert found["FOREWORD_ACCOUNTING__ENABLED"] == "false"
    assert found["PATH"] == os.environ["PATH"]


def test_the_simulator_can_lose_events_for_good() -> None:
    assert "--kv-events-buffer-steps" in simulator_command(OPTIONS, Path("model"))


def test_the_model_folder_is_the_same_each_time(tmp_path: Path) -> None:
    one, other = (write_model_folder(tmp_path / name) for name in "ab")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_this_process_is_seen() -> None:
    before = process_state(os.getpid())
    assert 0 < before.anonymous_kb <= before.rss_kb
    assert before.threads >= 1
    with Path("/proc/self/status").open():
        assert process_state(os.getpid()).descriptors == before.descriptors + 1
    sum(range(3_000_000))
    assert process_state(os.getpid()).cpu_s > before.cpu_s
