"""What the doctor finds on a healthy stack, and on stacks with one thing wrong."""

import json
import os
import signal
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.stack.check import Check, Status
from app.stack.checks import run_checks
from app.stack.doctor import doctor, render_text
from app.stack.environment_plan import EngineEnvironment
from app.stack.leash import SHARED_MEMORY
from app.stack.paths import HomePaths
from app.stack.ports import LOOPBACK, free_ports
from app.stack.settings import StackSettings
from app.stack.stack import start_stack
from app.stack.tier_checks import breaker_is_open
from tests.app.stack.children import eventually

pytestmark = pytest.mark.slow


def look(settings: StackSettings) -> dict[str, Check]:
    """Checks by name; the last one of a name counts."""
    return {check.name: check for check in run_checks(settings)}


def test_a_home_not_made_yet_is_no_problem(settings: StackSettings) -> None:
    found = look(settings)
    assert found["stack"].found == "none runs in this home"
    assert not [check for check in found.values() if check.status is Status.PROBLEM]


def test_a_running_stack_is_looked_at_from_outside(settings: StackSettings) -> None:
    with start_stack(settings) as stack:
        found = look(settings)
        assert found["engine environment"].status is Status.OK
        assert found["stack"].found.startswith(f"pid {os.getpid()}")
        assert found["tier"].found == f"pid {stack.pids['tier']}, ready"
        assert found["tiers"].status is Status.OK
        # The tiny engine cannot describe itself, and that is said.
        assert found["engine"].status is Status.PROBLEM
        assert found["breaker"].status is Status.NOTE


def test_a_stopped_tier_is_a_problem_with_its_log(settings: StackSettings) -> None:
    with start_stack(settings) as stack:
        stack.stop_service("tier")
        found = look(settings)
        assert found["tier"].found == "does not run (stopped)"
        assert str(stack.home.log("tier")) in (found["tier"].advice or "")
        assert found["tiers"].status is Status.PROBLEM


def test_a_restart_is_mentioned(settings: StackSettings) -> None:
    with start_stack(settings) as stack:
        os.kill(stack.pids["engine-0"], signal.SIGKILL)
        assert eventually(lambda: stack.restarts("engine-0") == 1 and "engine-0" in stack.pids)
        assert eventually(lambda: look(settings)["stack"].status is Status.OK)
        assert any("restarted 1 times" in check.found for check in run_checks(settings))


def test_leftover_shared_memory_is_found(settings: StackSettings) -> None:
    segment = SHARED_MEMORY / HomePaths(settings.home).shared_memory_prefixes[0]
    segment.touch()
    try:
        assert look(settings)["leftovers"].status is Status.PROBLEM
    finally:
        segment.unlink()


@pytest.mark.parametrize(
    ("mode", "size", "says"), [(0o644, 32, "others can read"), (0o600, 5, "is damaged")]
)
def test_a_bad_key_is_found(settings: StackSettings, mode: int, size: int, says: str) -> None:
    home = HomePaths(settings.home)
    home.root.mkdir(mode=0o700)
    home.kv_key.write_bytes(b"k" * size)
    home.kv_key.chmod(mode)
    assert says in look(settings)["key"].found


def test_a_home_open_to_others_is_found(settings: StackSettings) -> None:
    settings.home.mkdir()
    settings.home.chmod(0o755)
    assert "others can enter" in look(settings)["home"].found


def test_a_damaged_environment_is_found(
    settings: StackSettings, environment: EngineEnvironment
) -> None:
    marker = environment.path / "complete.json"
    content = marker.read_bytes()
    marker.unlink()
    try:
        found = look(settings)["engine environment"]
        assert (found.status, found.advice) == (Status.PROBLEM, "`foreword up` repairs it")
    finally:
        marker.write_bytes(content)


def test_a_taken_port_is_mentioned(settings: StackSettings) -> None:
    (port,) = free_ports(1)
    with socket.create_server((LOOPBACK, port)):
        fields = {name: getattr(settings, name) for name in StackSettings.__slots__}
        found = look(StackSettings(**{**fields, "port": port}))
    assert found["port"].found == f"port {port} is taken"


def test_the_command_prints_text_or_json_and_its_status_says_whether_there_is_a_problem(
    tmp_path: Path,
) -> None:
    arguments = ["--home", str(tmp_path / "home"), "--cache", str(tmp_path / "cache")]
    result = CliRunner().invoke(doctor, [*arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["schema_version"] == 1
    assert {"name", "status", "found", "advice"} == set(report["checks"][0])
    (tmp_path / "home").write_text("a file")
    result = CliRunner().invoke(doctor, arguments)
    assert result.exit_code == 1
    assert "is no folder" in result.stdout


def test_text_has_advice_below_its_check() -> None:
    check = Check(name="disk", status=Status.PROBLEM, found="full", advice="free some")
    assert render_text([check]) == "problem  disk  full\n               -> free some"


@pytest.mark.parametrize(
    ("metrics", "is_open"),
    [
        ("", None),
        ("foreword_tier_open 0.0\n", False),
        ('foreword_tier_open{pid="1"} 0.0\nforeword_tier_open{pid="2"} 1.0\n', True),
        ("foreword_tier_open_since 5.0\n", None),
    ],
)
def test_the_breaker_is_read_from_the_engines_metrics(metrics: str, is_open: bool | None) -> None:
    assert breaker_is_open(metrics) is is_open
