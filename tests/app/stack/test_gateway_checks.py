"""What the doctor makes of the gateway's, the tier server's and Redis' own words."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.stack.check import Check, Status
from app.stack.gateway_checks import cross_check, readiness, tier_speeds
from app.stack.health import redis_answers
from app.stack.live_checks import live_checks
from app.stack.ports import LOOPBACK, free_ports
from app.stack.stack_file import StackFacts
from app.stack.tier_checks import PROOF_REASON, adapters, redis_policy
from bench.engine_sim import ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread
from cache.tier_status import parse_tier_status
from tests.app.stack.proof_tier import ProofTier, running_proof_tier
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer


def by_name(checks: Iterator[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def ready(*reasons: str, status: str | None = None, **engine: object) -> dict[str, Check]:
    told = {"token_parity": True, "isolation": "proven", "kv_events": True} | engine
    state = status or ("degraded" if reasons else "ok")
    body = {"status": state, "reasons": list(reasons), "engine": told}
    return by_name(readiness(body, url="http://gateway"))


def report(difference: int, ratio: float | None, **fields: object) -> Check:
    told: dict[str, Any] = {
        "difference_tokens": difference,
        "difference_ratio": ratio,
        "unknown_requests": 0,
        "engine_resets": 0,
        "unlabelled_tokens": 0,
        "is_whole": True,
        "templates": [{"engine": {"total": 10_000}}],
    }
    (check,) = cross_check({"cross_check": told | fields})
    return check


def test_a_gateway_without_a_reason_is_well() -> None:
    found = ready()
    assert {check.status for check in found.values()} == {Status.OK}
    assert set(found) == {"gateway", "isolation", "kv events"}


@pytest.mark.parametrize(
    ("reason", "name", "advice"),
    [
        ("FW703 the engine makes no cache report", "engine config", "lint --explain FW703"),
        ("KV events were lost 3 times and could not be asked for again", "kv events", "doctor.md"),
        ("it is not proven that the engine keeps tenants apart: no", "isolation", "doctor.md"),
        ("the tier redis fails and is skipped for a while", "tiers", "doctor.md"),
        ("the ledger can't be written: full", "ledger", "doctor.md"),
        ("prompts are sent as messages, not token ids: other ids", "gateway", "doctor.md"),
    ],
)
def test_each_reason_is_a_problem_of_its_own(reason: str, name: str, advice: str) -> None:
    found = ready(reason, isolation="unproven", token_parity=False, kv_events=False)
    if name != "gateway":
        assert found["gateway"].status is Status.OK
    assert (found[name].status, found[name].found) == (Status.PROBLEM, reason)
    assert advice in (found[name].advice or "")


def test_a_refused_engine_is_a_problem_of_isolation() -> None:
    found = ready("the engine serves one tenant's KV to another", status="not ready")
    assert list(found) == ["isolation"]
    assert found["isolation"].status is Status.PROBLEM


def test_an_engine_without_kv_events_is_worth_a_note() -> None:
    assert ready(kv_events=False)["kv events"].status is Status.NOTE


@pytest.mark.parametrize(
    ("verdict", "enabled", "status"),
    [
        ("pays", True, Status.OK),
        ("slower than computing", True, Status.PROBLEM),
        ("slower than computing", False, Status.NOTE),
        ("not measured", True, Status.NOTE),
    ],
)
def test_a_tier_must_beat_computing(verdict: str, enabled: bool, status: Status) -> None:
    tier = {"tier": "ssd", "enabled": enabled, "verdict": verdict}
    (check,) = tier_speeds({"tiers": [tier | {"computing_to_loading": 3.25}]})
    assert (check.name, check.status) == ("break-even ssd", status)


@pytest.mark.parametrize("answer", [None, [], {"error": {"message": "no"}}])
def test_an_answer_that_is_none_is_no_fault_of_a_tiers(answer: object) -> None:
    assert list(tier_speeds(answer)) == []
    (check,) = cross_check(answer)
    assert check.status is Status.NOTE


@pytest.mark.parametrize(
    ("difference", "ratio", "fields", "status"),
    [
        (0, 0.0, {}, Status.OK),
        (99, 0.0099, {}, Status.OK),
        (-101, -0.0101, {}, Status.PROBLEM),
        (101, 0.0101, {}, Status.PROBLEM),
        (64, None, {}, Status.PROBLEM),
        (5000, 0.5, {"engine_resets": 1}, Status.OK),
        (-5000, -0.5, {"engine_resets": 1}, Status.PROBLEM),
        (0, 0.0, {"templates": []}, Status.NOTE),
    ],
)
def test_one_percent_is_the_most_that_two_counts_may_differ(
    difference: int, ratio: float | None, fields: dict[str, object], status: Status
) -> None:
    assert report(difference, ratio, **fields).status is status


def test_what_could_not_be_compared_is_said() -> None:
    found = report(0, 0.0, unknown_requests=2, engine_resets=1, unlabelled_tokens=320).found
    assert "2 requests whose re-use is unknown" in found
    assert "1 engine restarts" in found
    assert "320 tokens of requests without the gateway's labels" in found


@pytest.mark.parametrize(
    ("reason", "status"),
    [(None, Status.OK), ("a new disk", Status.NOTE), (PROOF_REASON, Status.PROBLEM)],
)
def test_each_adapter_is_told_and_how_it_is_switched_on(reason: str | None, status: Status) -> None:
    with running_proof_tier(ProofTier(adapters={"ssd": reason})) as tier:
        body = httpx.get(f"{tier.url}/foreword/status", trust_env=False).content
    (check,) = adapters(parse_tier_status(body), url="http://tier")
    assert (check.name, check.status) == ("tier ssd", status)
    if reason is not None:
        assert "http://tier/foreword/adapters/ssd" in (check.advice or "")


def test_a_tier_that_break_even_switched_off_comes_back_by_itself() -> None:
    with running_proof_tier(ProofTier(adapters={"ssd": "break-even: slow"})) as tier:
        body = httpx.get(f"{tier.url}/foreword/status", trust_env=False).content
    (check,) = adapters(parse_tier_status(body), url="http://tier")
    assert (check.status, check.advice) == (Status.NOTE, None)
    assert "tried again by itself" in check.found


@contextmanager
def running_redis(*arguments: str) -> Iterator[str]:
    (port,) = free_ports(1)
    program = shutil.which("redis-server")
    assert program is not None, "redis-server is not installed"
    command = [program, "--port", str(port), "--bind", LOOPBACK, "--save", "", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not redis_answers(LOOPBACK, port, timeout_s=1):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield f"redis://{LOOPBACK}:{port}/0"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"), Status.OK, "1 GiB"),
        (("--maxmemory", "1gb", "--maxmemory-policy", "noeviction"), Status.PROBLEM, "refused"),
        (("--maxmemory-policy", "allkeys-lru"), Status.PROBLEM, "no bound"),
        (("--requirepass", "secret"), Status.NOTE, "password"),
    ],
)
def test_the_kv_tiers_redis_must_forget(
    arguments: tuple[str, ...], status: Status, says: str
) -> None:
    with running_redis(*arguments) as url:
        check = redis_policy(url)
    assert (check.status, says in check.found) == (status, True), check


def test_a_redis_that_is_away_is_a_problem() -> None:
    (port,) = free_ports(1)
    assert redis_policy(f"redis://{LOOPBACK}:{port}/0").status is Status.PROBLEM


def test_a_live_gateway_is_asked_for_all_of_it(tmp_path: Path) -> None:
    model = write_tokenizer(tmp_path / "tiny", chat_template=CHATML_TOOLS)
    config = SimulatorConfig(
        model_path=model,
        labels=("template", "tenant"),
        clock=ClockConfig(speedup=50),
        events=EventsConfig(replay_endpoint="tcp://127.0.0.1:0"),
    )
    with (
        SimulatorThread(config) as simulator,
        running_gateway(gateway_settings(tmp_path / "home", simulator.url)) as url,
    ):
        wait_until_ready(url)
        body = {"model": "default", "messages": [{"role": "user", "content": "Hello " * 99}]}
        for _ in range(2):
            httpx.post(
                f"{url}/v1/chat/completions",
                json=body | {"max_tokens": 2},
                trust_env=False,
                timeout=60,
            ).raise_for_status()
        found = by_name(live_checks(facts(url, simulator.url, tmp_path)))
    assert found["gateway"].status is Status.OK
    assert found["isolation"].status is Status.OK
    assert found["kv events"].status is Status.OK
    assert found["cross-check"].status is Status.OK, found["cross-check"]
    assert found["cross-check"].found.startswith("+0 tokens against the engine's")


def facts(url: str, engine_url: str, home: Path) -> StackFacts:
    return StackFacts(
        pid=1,
        started="2026-01-01T00:00:00Z",
        ready=True,
        home=str(home),
        url=url,
        engine_url=engine_url,
        engine_urls=(engine_url,),
        kv_events=None,
        tier_url=None,
        tier_address=None,
        redis_url=None,
        model=None,
        model_path=None,
        environment=None,
    )


def test_a_cross_check_whose_rows_are_gone_is_noted_and_never_passes() -> None:
    found = report(0, None, is_whole=False, since="2026-01-02T00:30:00+00:00", templates=[])
    assert found.status is Status.NOTE
    assert "aren't all kept any more" in found.found
