"""`foreword keys`, beside the database and through a running gateway."""

import json
import time
from pathlib import Path

import httpx
from click.testing import CliRunner, Result

from app.commands.keys import keys
from bench.engine_sim import SimulatorThread
from tests.gateways import gateway_settings, running_gateway


def run(*arguments: str, key: str | None = None) -> Result:
    return CliRunner().invoke(keys, list(arguments), env={"FOREWORD_API_KEY": key})


def test_the_first_key_is_made_where_no_gateway_runs(tmp_path: Path) -> None:
    home = ("--home", str(tmp_path))
    refused = run("create", "acme", *home)
    assert refused.exit_code == 2
    assert "first key must have the role admin" in refused.stderr
    made = run("create", "acme", "--role", "admin", "--expires", "90d", *home)
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("fw-")
    assert made.stdout.strip() not in made.stderr
    listed = run("list", *home)
    assert "acme" in listed.stdout
    assert made.stdout.strip() not in listed.stdout
    [record] = json.loads(run("list", "--format", "json", *home).stdout)["data"]
    rotated = run("rotate", record["id"], "--grace", "10m", *home)
    assert rotated.stdout.startswith("fw-")
    revoked = run("revoke", record["id"], *home)
    assert "revoked" in revoked.stdout
    assert run("revoke", "key_none", *home).exit_code == 2
    assert run("create", "acme", "--expires", "soon", *home).exit_code == 2


def test_the_last_admins_key_is_revoked_only_where_that_is_said(
    tmp_path: Path, simulator: SimulatorThread
) -> None:
    """With or without a gateway, and one who did it gets back in."""
    home = ("--home", str(tmp_path))
    key = run("create", "ops", "--role", "admin", *home).stdout.strip()
    [record] = json.loads(run("list", "--format", "json", *home).stdout)["data"]
    with running_gateway(gateway_settings(tmp_path, simulator.url)) as url:
        for place in (home, ("--url", url)):
            refused = run("revoke", record["id"], *place, key=key)
            assert refused.exit_code == 2
            assert "--last-admin" in refused.stderr
        ended = run("revoke", record["id"], "--last-admin", "--url", url, key=key)
        assert "revoked" in ended.stdout, ended.output
        assert run("list", "--url", url, key=key).exit_code == 2
        again = run("create", "ops", "--role", "admin", "--direct", *home).stdout.strip()
        _ask(url, again, 200, within_s=60)


def test_a_running_gateway_is_asked_with_the_key_of_the_environment(
    tmp_path: Path, simulator: SimulatorThread
) -> None:
    settings = gateway_settings(tmp_path, simulator.url)
    with running_gateway(settings) as url:
        there = ("--url", url)
        admin = run("create", "ops", "--role", "admin", *there).stdout.strip()
        stranger = run("list", *there)
        assert stranger.exit_code == 2
        assert "FOREWORD_API_KEY" in stranger.stderr
        user = run("create", "acme", *there, key=admin).stdout.strip()
        assert run("list", *there, key=user).exit_code == 2
        assert "acme" in run("list", "--tenant", "acme", *there, key=admin).stdout
        assert "ops" not in run("list", "--tenant", "acme", *there, key=admin).stdout
        _ask(url, user, 200)


def test_who_owns_the_home_makes_a_key_when_none_is_left(
    tmp_path: Path, simulator: SimulatorThread
) -> None:
    home = ("--home", str(tmp_path))
    with running_gateway(gateway_settings(tmp_path, simulator.url)) as url:
        run("create", "ops", "--role", "admin", "--direct", *home)
        again = run("create", "ops", "--role", "admin", "--direct", *home).stdout.strip()
        _ask(url, again, 200, within_s=60)
    assert run("list", "--direct", "--url", url, *home).exit_code == 2


def test_an_examples_key_with_dots_is_refused_in_a_sentence() -> None:
    done = run("list", "--url", "http://127.0.0.1:1", key="fw-…")
    assert done.exit_code == 2
    assert "FOREWORD_API_KEY holds no key" in done.stderr


def _ask(url: str, key: str, status: int, *, within_s: float = 0) -> None:
    headers = {"authorization": f"Bearer {key}"}
    transport = httpx.HTTPTransport(retries=0)
    with httpx.Client(base_url=url, headers=headers, transport=transport) as client:
        for _ in range(max(1, int(within_s * 10))):
            answer = client.get("/foreword/limits")
            if answer.status_code == status:
                return
            time.sleep(0.1)
    raise AssertionError(f"{answer.status_code}, not {status}")
