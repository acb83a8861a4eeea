"""`foreword doctor --prove`: what it finds on good and leaking engines, and how it leaves them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import httpx
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from app.probes import ProbeAnswer
from app.stack.check import Status
from app.stack.doctor import doctor
from app.stack.proofs import rules
from app.stack.proofs.rules import Size, Trial, choose_size
from app.stack.tier_checks import PROOF_REASON
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread, TierConfig
from cache.usage import Tier
from tests.app.stack.proof_tier import ProofTier, running_proof_tier
from tests.conftest import RealEngine
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

SIZE = Size(tokens=224, page_tokens=16, chunk_tokens=64)


def answer(cached: int | None, *, gpu: int = 0, **fields: object) -> ProbeAnswer:
    made = ProbeAnswer(request_id="r", cached_tokens=cached, gpu_tokens=gpu)
    return replace(made, **({"output_ids": (1, 2), "logprobs": (-1.0, -2.0)} | fields))  # type: ignore[arg-type]


def trial(tier: Tier = Tier.SSD, **fields: object) -> Trial:
    good: dict[str, object] = {
        "tier": tier,
        "size": SIZE,
        "cold": answer(0),
        "other": answer(0),
        "unsalted": answer(0),
        "same": answer(192),
        "served": {tier: 192},
    }
    return Trial(**(good | fields))  # type: ignore[arg-type]


# What follows from the answers


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({}, Status.OK, "192 of 224 tokens for the same salt, 0 for another, 0 without"),
        ({"other": answer(64)}, Status.PROBLEM, "another salt was given 64 tokens"),
        ({"unsalted": answer(192)}, Status.PROBLEM, "no salt was given 192 tokens"),
        ({"other": answer(1)}, Status.OK, "0 for another"),
        ({"same": answer(128)}, Status.PROBLEM, "the same salt got 128 of 192 tokens back"),
        ({"same": answer(None)}, Status.NOTE, "doesn't say"),
        ({"served": {Tier.RAM: 192}}, Status.NOTE, "came from ram (192)"),
        ({"served": None}, Status.NOTE, "from a tier that isn't known"),
        ({"same": answer(192, gpu=64), "served": {Tier.SSD: 128}}, Status.NOTE, "from gpu (64)"),
    ],
)
def test_a_trial_proves_isolation_only_if_all_came_from_its_own_tier(
    fields: dict[str, object], status: Status, says: str
) -> None:
    found = rules.isolation(trial(**fields))
    assert found.status is status
    assert says in found.found


def test_a_hit_from_below_is_no_proof_for_the_gpu() -> None:
    assert rules.isolation(trial(Tier.GPU, same=answer(208, gpu=208))).status is Status.OK
    assert rules.isolation(trial(Tier.GPU, same=answer(208, gpu=16))).status is Status.NOTE


@pytest.mark.parametrize(
    ("same", "serde", "status", "says"),
    [
        (answer(192), None, Status.OK, "the cold run's answer"),
        (answer(192, logprobs=(-1.0005, -2.0)), None, Status.OK, "within 0.0005"),
        (answer(192, logprobs=(-1.01, -2.0)), None, Status.NOTE, "differ by 0.01"),
        (answer(192, logprobs=(-3.0, -2.0)), None, Status.PROBLEM, "differ by 2"),
        (answer(192, logprobs=None), None, Status.NOTE, "not compared"),
        (answer(192, logprobs=(-1.2, -2.0)), "fp8", Status.OK, "fp8: logprob drift 0.2"),
    ],
)
def test_what_came_back_must_give_the_cold_runs_answer(
    same: ProbeAnswer, serde: str | None, status: Status, says: str
) -> None:
    found = rules.lossless(trial(same=same), serde=serde)
    assert found is not None
    assert (found.status, says in found.found) == (status, True)


def test_nothing_is_compared_where_nothing_came_back() -> None:
    assert rules.lossless(trial(same=answer(0)), serde=None) is None


def test_a_lossy_serde_is_told_with_its_bytes_and_load_time() -> None:
    measured = trial(stored_bytes=24_612, ram_bytes=98_304, load_s=0.0031)
    found = rules.lossless(measured, serde="fp8")
    assert found is not None
    assert found.found == (
        "fp8: 24,612 bytes a chunk (98,304 in RAM), 3.1 ms to load one, logprob drift 0, "
        "same greedy answer"
    )


def test_logprobs_are_compared_up_to_the_first_token_that_differs() -> None:
    one = answer(0, output_ids=(1, 2, 3), logprobs=(-1.0, -2.0, -3.0))
    two = answer(0, output_ids=(1, 9, 3), logprobs=(-1.0, -2.5, -90.0))
    assert rules.drift(one, two) == 0.5


@given(
    page=st.sampled_from([1, 8, 16, 64]),
    pages_a_chunk=st.integers(1, 16) | st.none(),
    room=st.integers(1, 40_000),
)
def test_a_trials_size_fits_and_tells_pages_from_chunks(
    page: int, pages_a_chunk: int | None, room: int
) -> None:
    chunk = None if pages_a_chunk is None else page * pages_a_chunk
    size = choose_size(page_tokens=page, chunk_tokens=chunk, room_tokens=room)
    if size is not None:
        assert size.tokens < room
        assert size.tokens > size.expected(Tier.SSD) > 0
        assert size.expected(Tier.GPU) >= size.expected(Tier.SSD)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"storage_manager": 1}', b"[1]"])
def test_no_serde_is_claimed_where_none_is_told(body: bytes) -> None:
    assert rules.parse_serdes(body) == ()


@pytest.mark.parametrize(
    ("serde", "inner"),
    [
        ("SerdeConfig(type='foreword_aead', kwargs={'inner': 'fp8', 'head_dim': 64})", "fp8"),
        ({"type": "foreword_aead", "kwargs": {"inner": "turboquant_k8v4"}}, "turboquant_k8v4"),
        ("SerdeConfig(type='foreword_aead', kwargs={})", None),
        (None, None),
    ],
)
def test_a_lossy_serde_is_read_from_lmcaches_configuration(
    serde: object, inner: str | None
) -> None:
    adapters = {"adapters": [{"serde_config": serde}]}
    body = json.dumps({"storage_manager": {"l2_adapter_config": adapters}}).encode()
    assert rules.parse_serdes(body) == (inner,)


# On a simulated engine


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return write_tokenizer(folder, chat_template=CHATML_TOOLS)


@contextmanager
def simulated(model: Path, *, tiers: bool = True, speedup: float = 50) -> Iterator[SimulatorThread]:
    config = SimulatorConfig(
        model_path=model,
        clock=ClockConfig(speedup=speedup),
        tier=TierConfig() if tiers else None,
    )
    with SimulatorThread(config) as simulator:
        yield simulator


def order(simulator: SimulatorThread, kind: str, **fault: object) -> None:
    body = {"kind": kind, "times": None, **fault}
    url = f"{simulator.url}/simulator/faults"
    httpx.post(url, json=body, trust_env=False).raise_for_status()


def prove(engine: str, tiers: str | None = None, *more: str) -> Result:
    arguments = ["--prove", "--engine-url", engine, "--format", "json", *more]
    if tiers is not None:
        arguments += ["--tiers-url", tiers]
    return CliRunner().invoke(doctor, arguments)


def found(result: Result) -> dict[str, tuple[str, str]]:
    """Status and sentence by name."""
    checks = json.loads(result.stdout)["checks"]
    return {check["name"]: (check["status"], check["found"]) for check in checks}


def test_a_good_engine_is_proven_at_each_tier_and_left_as_it_was(model: Path) -> None:
    with simulated(model) as simulator, running_proof_tier(ProofTier(serde="fp8")) as tier:
        result = prove(simulator.url, tier.url)
    told = found(result)
    for name in ("gpu", "ram", "ssd", "redis"):
        assert told[f"isolation {name}"][0] == "ok", told
    assert "208 of 224 tokens" in told["isolation gpu"][1]
    assert "192 of 224 tokens" in told["isolation redis"][1]
    assert tier.switches == [("ssd", False), ("ssd", True)]
    assert tier.adapters == {"ssd": None, "redis": None}
    assert len(tier.destroyed) >= 8
    # This engine knows nothing of destroyed salts, and that is found out.
    assert told["destroyed salt"][0] == "problem"
    assert result.exit_code == 1


def test_an_engine_without_tiers_is_proven_at_its_gpu(model: Path) -> None:
    with simulated(model, tiers=False) as simulator:
        result = prove(simulator.url)
    assert set(found(result)) == {"isolation gpu", "lossless gpu"}
    assert found(result)["isolation gpu"][0] == "ok"
    assert result.exit_code == 0
    assert "emptied" in result.stderr


def test_tiers_whose_address_is_not_known_are_said_to_be_unproven(model: Path) -> None:
    with simulated(model) as simulator:
        told = found(prove(simulator.url))
    assert told["isolation tiers"][0] == "note"


def test_a_leak_is_a_problem_with_one_sentence(model: Path) -> None:
    with simulated(model) as simulator, running_proof_tier(ProofTier()) as tier:
        order(simulator, "ignore_salts")
        result = prove(simulator.url, tier.url)
    told = found(result)
    sentence = "a request with another salt was given 208 tokens of another tenant's KV"
    assert told["isolation gpu"] == ("problem", sentence)
    assert told["isolation redis"][0] == "problem"
    assert result.exit_code == 1
    assert tier.adapters == {"ssd": None, "redis": None}


def test_a_tier_that_is_off_or_missing_is_said_and_no_fault(model: Path) -> None:
    off: dict[str, str | None] = {"ssd": "break-even: slow"}
    with simulated(model) as simulator, running_proof_tier(ProofTier(adapters=off)) as tier:
        told = found(prove(simulator.url, tier.url))
    assert told["isolation ssd"] == ("note", "not proven: the tier is off (break-even: slow)")
    assert told["isolation redis"] == ("note", "there is no such tier here")
    assert tier.switches == []


def test_what_a_killed_proof_left_off_is_switched_on_again(model: Path) -> None:
    left: dict[str, str | None] = {"ssd": PROOF_REASON, "redis": None}
    with simulated(model) as simulator, running_proof_tier(ProofTier(adapters=left)) as tier:
        told = found(prove(simulator.url, tier.url))
    assert told["tier ssd"] == ("note", "switched on again: an earlier proof was killed")
    assert told["isolation ssd"][0] == "ok"
    assert tier.adapters == {"ssd": None, "redis": None}


def test_a_busy_engine_is_left_alone_unless_forced(model: Path) -> None:
    with simulated(model, tiers=False, speedup=4) as simulator:  # half a minute
        body = {"input_ids": [5] * 40, "sampling_params": {"max_new_tokens": 6000}}
        url = f"{simulator.url}/generate"
        busy = Thread(target=httpx.post, args=(url,), kwargs={"json": body, "timeout": 110})
        busy.start()
        loads = f"{simulator.url}/v1/loads"
        while not httpx.get(loads, trust_env=False).json()["loads"][0]["num_running_reqs"]:
            time.sleep(0.01)
        refused = prove(simulator.url)
        forced = prove(simulator.url, None, "--force")
        abort = {"abort_all": True}
        httpx.post(f"{simulator.url}/abort_request", json=abort, trust_env=False)
        busy.join()
    assert found(refused)["proofs"][1].startswith("not made: the engine has 1 requests")
    assert refused.exit_code == 1
    assert found(forced)["isolation gpu"][0] == "ok"


def test_ctrl_c_switches_the_adapters_on_again(model: Path) -> None:
    with simulated(model) as simulator, running_proof_tier(ProofTier(hold_s=2)) as tier:
        foreword = "from app.cli import main; main()"
        command = [sys.executable, "-c", foreword, "doctor", "--prove", "--format", "json"]
        command += ["--engine-url", simulator.url, "--tiers-url", tier.url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while tier.adapters["ssd"] is None:
            assert process.poll() is None, "it ended before it switched anything"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert tier.adapters == {"ssd": None, "redis": None}
    assert tier.destroyed
    assert json.loads(output)["checks"][0]["name"] == "isolation gpu"


def test_an_engine_that_is_away_is_one_sentence() -> None:
    result = prove("http://127.0.0.1:9")
    assert found(result)["proofs"][0] == "problem"
    assert "can't be reached" in found(result)["proofs"][1]


@pytest.mark.parametrize(
    "arguments", [["--force"], ["--engine-url", "http://h"], ["--prove", "--tiers-url", "http://h"]]
)
def test_options_that_mean_nothing_alone_are_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(doctor, arguments).exit_code == 2


def test_without_a_stack_there_is_nothing_to_prove(tmp_path: Path) -> None:
    arguments = ["--prove", "--home", str(tmp_path), "--cache", str(tmp_path), "--format", "json"]
    result = CliRunner().invoke(doctor, arguments)
    assert found(result)["proofs"] == ("problem", "not made: no stack runs in this home")


# On the real one


@pytest.mark.engine
def test_the_real_stack_is_proven_at_gpu_ram_ssd_and_redis(engine: RealEngine) -> None:
    result = prove(engine.url, engine.stack.tier_url)
    told = found(result)
    assert result.exit_code == 0, told
    for name in ("gpu", "ram", "ssd", "redis"):
        assert told[f"isolation {name}"][0] == "ok", told
        assert told[f"lossless {name}"][0] == "ok", told
    assert told["destroyed salt"][0] == "ok", told
