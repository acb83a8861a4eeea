"""The whole stack as real processes, with tiny programs for engine and tier."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from app.stack.backoff import NEVER_RESTART
from app.stack.errors import (
    AlreadyRunningError,
    EngineUnreachableError,
    HostNeedsKeysError,
    ModelIncompleteError,
    ModelNotFoundError,
    PortTakenError,
    ProcessStartError,
    ProgramMissingError,
    StackError,
)
from app.stack.health import get, redis_answers
from app.stack.leftovers import marked_processes, shared_memory
from app.stack.paths import HomePaths
from app.stack.ports import LOOPBACK, claim_port, free_ports
from app.stack.services import redis_address
from app.stack.settings import EngineOptions, StackSettings
from app.stack.stack import start_stack
from app.stack.stack_file import read_stack_file
from bench.engine_sim import SimulatorConfig, SimulatorThread
from tests.app.stack.children import eventually, is_alive
from tests.tokenizer_folders import write_tokenizer

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[3]

# `foreword up` with tiny programs: everything but the options' parsing is the real thing.
UP = """
import json, sys
from pathlib import Path
from app.stack.backoff import RestartPolicy
from app.stack.deploy_files import DeployFiles
from app.stack.settings import StackSettings
from app.stack.up_command import run
from tests.app.stack.tiny import offline_env

home, cache, model, deploy = (Path(word) for word in sys.argv[1:])
files = DeployFiles(lock=deploy / "engine" / "requirements-cpu.lock",
                    plugins=(deploy / "engine-guard", deploy / "engine-cpu"))
sys.exit(run(StackSettings(
    home=home, cache=cache, model=str(model), base_env=offline_env(files), deploy=files,
    gateway=False, cpu=True, restart=RestartPolicy(first_s=0.1, attempts=3))))
"""


@pytest.fixture
def home(settings: StackSettings) -> HomePaths:
    return HomePaths(settings.home)


def changed(settings: StackSettings, **changes: object) -> StackSettings:
    fields = {name: getattr(settings, name) for name in StackSettings.__slots__}
    return StackSettings(**{**fields, **changes})  # type: ignore[arg-type]


def start_up(settings: StackSettings, *, fault: str = "") -> "subprocess.Popen[str]":
    deploy = settings.deploy
    assert deploy is not None
    arguments = [settings.home, settings.cache, settings.model, deploy.lock.parent.parent]
    return subprocess.Popen(
        [sys.executable, "-c", UP, *map(str, arguments)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TINY_FAULT": fault},
        start_new_session=True,
    )


def read_until_ready(up: "subprocess.Popen[str]") -> None:
    assert up.stdout is not None
    assert up.stdout.readline().startswith("Foreword is ready at http://127.0.0.1:")


def test_a_started_stack_says_where_everything_is(settings: StackSettings, home: HomePaths) -> None:
    with start_stack(settings) as stack:
        assert get(f"{stack.engine_url}/ready", timeout_s=30).good
        assert get(f"{stack.tier_url}/healthcheck", timeout_s=30).good
        facts = read_stack_file(home.stack_file)
        assert facts is not None
        assert (facts.pid, facts.ready, facts.model) == (os.getpid(), True, "model")
        assert facts.engine_url == stack.engine_url
        assert {name: each.pid for name, each in facts.processes.items()} == stack.pids
        assert set(stack.pids) == {"tier", "engine-0"}
        assert (stack.url, stack.redis_url) == (None, None)
        pids = [*stack.pids.values(), *stack.leash_pids.values()]
    assert not any(is_alive(pid) for pid in pids)
    assert not home.stack_file.exists()
    assert not shared_memory(home)
    assert not home.scratch.exists()


def test_what_home_holds_is_for_its_owner_alone(settings: StackSettings, home: HomePaths) -> None:
    with start_stack(settings):
        for folder in (home.root, home.run, home.logs, home.tier_disk):
            assert folder.stat().st_mode & 0o777 == 0o700, folder
        assert home.stack_file.stat().st_mode & 0o777 == 0o600
        key = home.kv_key.read_bytes()
    assert home.kv_key.stat().st_mode & 0o777 == 0o600
    assert len(key) == 32
    with start_stack(settings):
        assert home.kv_key.read_bytes() == key


def test_without_tiers_there_is_only_the_engine(settings: StackSettings) -> None:
    with start_stack(changed(settings, tiers=None)) as stack:
        assert set(stack.pids) == {"engine-0"}
        assert stack.tier_url is None


def test_a_second_stack_in_the_same_home_is_refused(settings: StackSettings) -> None:
    with (
        start_stack(settings),
        pytest.raises(AlreadyRunningError, match=f"pid {os.getpid()}"),
        start_stack(settings),
    ):
        pass


def test_the_tier_is_restarted_with_its_shared_memory_renewed(
    settings: StackSettings, home: HomePaths
) -> None:
    with start_stack(settings) as stack:
        (segment,) = shared_memory(home)
        first, inode = stack.pids["tier"], segment.stat().st_ino
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: stack.restarts("tier") == 1 and "tier" in stack.pids)
        assert eventually(lambda: get(f"{stack.tier_url}/healthcheck", timeout_s=10).good)
        (segment,) = shared_memory(home)
        assert segment.stat().st_ino != inode
        facts = read_stack_file(home.stack_file)
        assert facts is not None
        assert facts.processes["tier"].restarts == 1


def test_without_restarts_a_killed_tier_stays_away_until_it_is_started(
    settings: StackSettings,
) -> None:
    with start_stack(changed(settings, restart=NEVER_RESTART)) as stack:
        os.kill(stack.pids["tier"], signal.SIGKILL)
        assert eventually(lambda: "tier" not in stack.pids)
        assert set(stack.pids) == {"engine-0"}
        stack.start_service("tier")
        assert get(f"{stack.tier_url}/healthcheck", timeout_s=30).good
        assert stack.restarts("tier") == 0


def test_several_engines_share_one_tier_and_each_is_restarted_alone(
    settings: StackSettings, home: HomePaths
) -> None:
    with start_stack(changed(settings, replicas=3)) as stack:
        names = ["engine-0", "engine-1", "engine-2"]
        assert set(stack.pids) == {"tier", *names}
        assert len(set(stack.engine_urls)) == 3
        assert all(get(f"{url}/ready", timeout_s=30).good for url in stack.engine_urls)
        facts = read_stack_file(home.stack_file)
        assert facts is not None
        assert facts.engine_urls == stack.engine_urls
        assert facts.engine_url == stack.engine_urls[0]
        assert {Path(facts.processes[name].log).name for name in names} == {
            f"{name}.log" for name in names
        }
        before = stack.pids
        os.kill(before["engine-1"], signal.SIGKILL)
        assert eventually(lambda: stack.restarts("engine-1") == 1 and "engine-1" in stack.pids)
        assert eventually(lambda: get(f"{stack.engine_urls[1]}/ready", timeout_s=30).good)
        others = ("tier", "engine-0", "engine-2")
        assert {n: stack.pids[n] for n in others} == {n: before[n] for n in others}
    assert not marked_processes(home)


def test_redis_is_started_before_the_tier_and_stopped_after_it(settings: StackSettings) -> None:
    lines: list[str] = []
    with start_stack(changed(settings, redis=True), say=lines.append) as stack:
        assert stack.redis_url is not None
        assert redis_answers(*redis_address(stack.redis_url), timeout_s=30)
    began = [line.split(":")[0] for line in lines if "ready after" in line]
    ended = [line.split(":")[0] for line in lines if line.endswith("stopping")]
    assert began == ["redis", "tier", "engine-0"] == ended[::-1]


def test_a_missing_redis_is_one_sentence(settings: StackSettings, tmp_path: Path) -> None:
    env = {**settings.base_env, "PATH": str(tmp_path)}
    with (
        pytest.raises(ProgramMissingError, match="apt install redis-server"),
        start_stack(changed(settings, redis=True, base_env=env)),
    ):
        pass


def test_a_start_that_fails_leaves_nothing(settings: StackSettings, home: HomePaths) -> None:
    broken = EngineOptions(env={"TINY_FAULT": "no start"})
    with (
        pytest.raises(ProcessStartError, match="tiny: no start today"),
        start_stack(changed(settings, engine=broken)),
    ):
        pass
    assert not marked_processes(home)
    assert not shared_memory(home)
    assert not home.stack_file.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_stops_everything_in_order(
    settings: StackSettings, home: HomePaths, number: signal.Signals
) -> None:
    with start_up(settings) as up:
        read_until_ready(up)
        up.send_signal(number)
        _, progress = up.communicate(timeout=60)
    assert up.returncode == 0
    stopping = [line for line in progress.splitlines() if line.endswith("stopping")]
    assert stopping == ["engine-0: stopping", "tier: stopping"]
    assert not marked_processes(home)
    assert not home.stack_file.exists()


def test_a_second_signal_kills_what_does_not_stop(settings: StackSettings, home: HomePaths) -> None:
    with start_up(settings, fault="deaf") as up:
        read_until_ready(up)
        assert up.stderr is not None
        up.send_signal(signal.SIGINT)
        while "engine-0: stopping" not in up.stderr.readline():
            pass
        began = time.monotonic()
        up.send_signal(signal.SIGINT)
        _, progress = up.communicate(timeout=60)
        took_s = time.monotonic() - began
    assert up.returncode == 0
    assert "killing what still runs" in progress
    assert took_s < 18.0, progress  # the engine's grace alone is longer
    assert not marked_processes(home)
    assert not home.stack_file.exists()


def test_a_home_that_cannot_be_made_is_one_sentence(settings: StackSettings) -> None:
    settings.home.write_text("a file")
    with start_up(settings) as up:
        _, said = up.communicate(timeout=60)
    assert up.returncode == 3
    assert said == f"foreword: {settings.home}: File exists; `foreword doctor` looks closer\n"


def test_a_signal_while_starting_stops_what_has_started(
    settings: StackSettings, home: HomePaths
) -> None:
    with start_up(settings) as up:
        assert up.stderr is not None
        while "engine-0: starting" not in up.stderr.readline():
            pass
        up.send_signal(signal.SIGTERM)
        _, progress = up.communicate(timeout=60)
    assert up.returncode == 0
    assert "tier: stopping" in progress
    assert not marked_processes(home)


def test_nothing_is_left_by_a_killed_supervisor(settings: StackSettings, home: HomePaths) -> None:
    """SIGKILL of `foreword up`: processes and shared memory go; the next start is clean."""
    with start_up(settings) as up:
        read_until_ready(up)
        assert marked_processes(home)
        up.kill()
        up.communicate(timeout=60)
    assert eventually(lambda: not marked_processes(home))
    assert eventually(lambda: not shared_memory(home))
    assert home.stack_file.exists()
    with start_stack(settings) as stack:
        assert set(stack.pids) == {"tier", "engine-0"}


def test_supervisor_and_leashes_killed_at_once_leave_nothing_to_the_next_start(
    settings: StackSettings, home: HomePaths
) -> None:
    with start_up(settings) as up:
        read_until_ready(up)
        facts = read_stack_file(home.stack_file)
        assert facts is not None
        up.kill()
        for each in facts.processes.values():
            assert each.leash_pid is not None
            os.kill(each.leash_pid, signal.SIGKILL)
        up.communicate(timeout=60)
    assert eventually(lambda: not marked_processes(home))
    assert shared_memory(home)  # nobody was left to unlink it
    lines: list[str] = []
    with start_stack(settings, say=lines.append):
        # Orphans with random names, whoever left them, are swept as well.
        assert re.search(r"removed [1-9]\d* of its shared memory segments", lines[0])
        assert len(shared_memory(home)) == 1
    assert not shared_memory(home)


def test_a_second_up_says_who_runs_and_where(settings: StackSettings) -> None:
    with start_up(settings) as up:
        read_until_ready(up)
        with start_up(settings) as second:
            _, said = second.communicate(timeout=60)
        assert second.returncode == 3
        assert f"`foreword up` (pid {up.pid}) already runs in {settings.home}" in said
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)


def test_a_process_that_keeps_ending_ends_the_stack(settings: StackSettings) -> None:
    """The engine is given up: one sentence, status 3."""
    with start_up(settings) as up:
        read_until_ready(up)
        home = HomePaths(settings.home)
        assert settings.deploy is not None
        seen: set[int] = set()
        while up.poll() is None:
            facts = read_stack_file(home.stack_file)
            pid = None if facts is None else facts.processes["engine-0"].pid
            if pid is not None and pid not in seen:
                seen.add(pid)
                os.kill(pid, signal.SIGKILL)
        _, progress = up.communicate(timeout=60)
    assert up.returncode == 3
    assert "foreword: engine-0 ended again after 3 restarts" in progress


def test_a_taken_port_is_one_sentence(settings: StackSettings) -> None:
    wanted = changed(settings, gateway=True)
    (port,) = free_ports(1)
    with (
        socket.create_server((LOOPBACK, port)),
        pytest.raises(PortTakenError, match=rf"port {port} on 127\.0\.0\.1 is taken"),
        start_stack(changed(wanted, port=port)),
    ):
        pass


def test_port_zero_is_any_free_one() -> None:
    assert claim_port(LOOPBACK, 0) > 0


@pytest.mark.parametrize(
    ("changes", "error", "exit_code"),
    [
        ({"host": "0.0.0.0"}, HostNeedsKeysError, 2),
        ({"model": "./no/such/folder"}, ModelNotFoundError, 2),
        ({"engine_url": "http://127.0.0.1:9"}, EngineUnreachableError, 3),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    settings: StackSettings, changes: dict[str, str], error: type[StackError], exit_code: int
) -> None:
    with pytest.raises(error) as caught, start_stack(changed(settings, **changes)):
        pass
    assert caught.value.exit_code == exit_code


def test_a_folder_without_a_model_names_what_is_missing(
    settings: StackSettings, tmp_path: Path
) -> None:
    with (
        pytest.raises(ModelIncompleteError, match=r"no config\.json and no tokenizer\.json"),
        start_stack(changed(settings, model=str(tmp_path))),
    ):
        pass


def test_a_running_engine_is_used_and_left_alone(settings: StackSettings, tmp_path: Path) -> None:
    with start_stack(settings) as engine:
        outer = changed(settings, home=tmp_path / "other", engine_url=engine.engine_url)
        with start_stack(outer) as stack:
            assert stack.engine_url == engine.engine_url
            assert stack.pids == {}
        assert get(f"{engine.engine_url}/ready", timeout_s=30).good


def test_the_gateway_finds_files_where_the_stack_was_started(
    settings: StackSettings, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "clerk.yaml").write_text("name: clerk\nversion: 1\ntools: []\n")
    env = {**settings.base_env, "FOREWORD_AGENTS__FOLDER": "mine"}
    with SimulatorThread(SimulatorConfig(model_path=write_tokenizer(tmp_path / "tiny"))) as engine:
        named = changed(
            settings, engine_url=engine.url, gateway=True, port=0, base_env=env, folder=tmp_path
        )
        with start_stack(named, say=print) as stack:
            agents = httpx.get(f"{stack.url}/foreword/agents", trust_env=False).json()
    assert "clerk" in [agent["id"] for agent in agents["data"]]


def test_a_stale_or_foreign_stack_file_is_no_stack(tmp_path: Path) -> None:
    path = tmp_path / "stack.json"
    assert read_stack_file(path) is None
    for content in ("", "[]", "{}", json.dumps({"schema_version": 99, "processes": {}})):
        path.write_text(content)
        assert read_stack_file(path) is None
