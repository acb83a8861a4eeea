"""`foreword plan` against the boot log of the engine that runs: SmolLM2 on real SGLang."""

import json
import re
from typing import Any

import pytest

from tests.e2e.conftest import UserStack

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


def planned(stack: UserStack, arguments: str) -> Any:
    done = stack.run(f"foreword plan {arguments} --format json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_plan_is_what_the_engine_said_at_its_start(user_stack: UserStack) -> None:
    log = (user_stack.home / "run" / "logs" / "engine-0.log").read_text(errors="replace")
    said = re.search(r"#tokens: (\d+), K size: ([\d.]+) GB, V size: ([\d.]+) GB", log)
    window = re.search(r"max_total_num_tokens=(\d+).*context_len=(\d+)", log)
    assert said is not None
    assert window is not None
    before = planned(
        user_stack,
        f"smollm2-135m-instruct --dtype float32 --gpu-memory-gib 24 --max-total-tokens {said[1]}",
    )
    assert before["pool"]["tokens"] == int(said[1]) == int(window[1])
    assert before["context_tokens"] == int(window[2])
    said_gib = float(said[2]) + float(said[3])
    assert before["pool"]["bytes"] / 2**30 == pytest.approx(said_gib, abs=0.011)


def test_the_running_engine_is_planned_alike(user_stack: UserStack) -> None:
    body = planned(user_stack, "--corpus-tokens 2000")
    plan, engine = body["plan"], body["engine"]
    assert plan["kv_bytes_per_token"] == 46_080
    assert plan["pool"]["tokens"] == engine["pool_tokens"]
    assert engine["measured_kv_bytes_per_token"] == pytest.approx(46_080, rel=0.01)
    assert plan["corpus"]["fits_window"]
    assert [tier["tier"] for tier in body["tiers"]][:2] == ["ram", "ssd"]
    for tier in body["tiers"]:
        assert tier["tokens"] is None or tier["tokens"] % 64 == 0
