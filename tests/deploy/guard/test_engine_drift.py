"""What a lossy codec saves, costs and changes is measured on the model itself."""

import json
import os
import subprocess

import pytest

pytestmark = pytest.mark.engine


def test_the_figures_of_a_codec_come_from_the_models_own_kv(
    guard_python: str, guard_model: str
) -> None:
    command = [guard_python, "-m", "foreword_guard.drift", guard_model]
    command += ["--codec", "fp8", "--codec", "turboquant_k8v4"]
    environment = os.environ | {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=110, check=False
    )

    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    fp8, turboquant = (json.loads(line) for line in lines)
    assert fp8["stored_bytes"] * 4 == fp8["chunk_bytes"]
    assert 0 < fp8["mean_drift"] <= fp8["largest_drift"] < 0.05
    # All four layers of the tiny model are at one of its ends, and those stay as they are.
    assert turboquant["stored_bytes"] == turboquant["chunk_bytes"]
    assert turboquant["largest_drift"] == 0
