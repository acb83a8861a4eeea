"""The real SGLang and LMCache under the supervisor: what a SIGKILL of each leaves behind.

One stack for the module, in a process of its own, so that its supervisor can be killed too. The
tests run in the order of the file; the last one ends the stack.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.stack.check import Status
from app.stack.checks import run_checks
from app.stack.environment_plan import EngineEnvironment
from app.stack.health import get
from app.stack.leash import SHARED_MEMORY, files_in_use
from app.stack.leftovers import marked_processes, shared_memory
from app.stack.paths import ORPHAN_PREFIXES, HomePaths
from app.stack.settings import StackSettings
from app.stack.stack_file import StackFacts, read_stack_file
from tests.app.stack.children import eventually, is_alive
from tests.engines import stored

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

REPOSITORY = Path(__file__).parents[3]
RESTART_S = 300.0

UP = """
import os, sys
from pathlib import Path
from app.stack.settings import EngineOptions, StackSettings
from app.stack.up_command import run
from cache.tiers import TierSettings

home, cache, model = (Path(word) for word in sys.argv[1:4])
sys.exit(run(StackSettings(
    home=home, cache=cache, model=str(model), base_env=os.environ, gateway=False, cpu=True,
    engine=EngineOptions(pool_tokens=8000), tiers=TierSettings(ram_gb=0.25, ssd_gb=0.25),
    tiers_otlp_url=sys.argv[4])))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """A `foreword up` without a gateway."""

    process: "subprocess.Popen[str]"
    home: HomePaths
    cache: Path
    memory_before: frozenset[str]
    collected: Path

    @property
    def facts(self) -> StackFacts:
        facts = read_stack_file(self.home.stack_file)
        assert facts is not None
        return facts

    def pid(self, name: str) -> int:
        pid = self.facts.processes[name].pid
        assert pid is not None, self.facts.processes
        return pid

    def restarted(self, name: str, times: int) -> bool:
        process = self.facts.processes[name]
        return process.restarts == times and process.state == "ready"

    def memory_left(self) -> set[str]:
        """Shared memory that was not there before this stack and that nobody has open."""
        new = memory_names() - self.memory_before
        used = files_in_use()
        return {name for name in new if str(SHARED_MEMORY / name) not in used}


def memory_names() -> set[str]:
    """Shared memory of the kinds that SGLang, LMCache and Python's multiprocessing make."""
    kinds = (*ORPHAN_PREFIXES, "lmcache_l1_pool_foreword-", "foreword-")
    return {path.name for path in SHARED_MEMORY.iterdir() if path.name.startswith(kinds)}


@dataclass(frozen=True, slots=True)
class Receiver:
    """A collector of OTLP over gRPC, and where it writes down what came."""

    url: str
    lines: Path


@pytest.fixture(scope="module")
def receiver(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    lines = tmp_path_factory.mktemp("otlp") / "lines"
    program = Path(__file__).with_name("otlp_receiver.py")
    with lines.open("w") as out:
        process = subprocess.Popen([str(engine_python), "-P", str(program)], stdout=out)
    with process:
        assert eventually(lambda: lines.read_text().endswith("\n"), within_s=60)
        yield Receiver(f"http://127.0.0.1:{lines.read_text().split()[0]}", lines)
        process.kill()


@pytest.fixture(scope="module")
def up(
    engine_cache: Path,
    engine_environment: EngineEnvironment,
    tiny_model: Path,
    receiver: Receiver,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Up]:
    home = tmp_path_factory.mktemp("home")
    log = home.with_suffix(".log")
    before = frozenset(memory_names())
    arguments = [str(home), str(engine_cache), str(tiny_model), receiver.url]
    with log.open("w") as progress:
        process = subprocess.Popen(
            [sys.executable, "-c", UP, *arguments],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=progress,
            text=True,
            start_new_session=True,
        )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Foreword is ready"), log.read_text()
        yield Up(
            process=process,
            home=HomePaths(home),
            cache=engine_cache,
            memory_before=before,
            collected=receiver.lines,
        )
        process.kill()


def generate(url: str, text: str, **more: str) -> dict[str, int]:
    """One token after a prompt; cached tokens by tier."""
    body = {"text": text, "sampling_params": {"max_new_tokens": 1, "temperature": 0}, **more}
    request = urllib.request.Request(
        f"{url}/generate",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        info = json.load(response)["meta_info"]
    details = info.get("cached_tokens_details") or {}
    return {tier: int(details.get(tier) or 0) for tier in ("device", "storage")}


PROMPT = "A prefix that is long enough to fill some chunks of the tier. " * 30


def test_the_doctor_finds_a_real_stack_healthy(up: Up) -> None:
    settings = StackSettings(home=up.home.root, cache=up.cache, base_env=os.environ, cpu=True)
    checks = list(run_checks(settings))
    assert [check for check in checks if check.status is Status.PROBLEM] == []
    found = {check.name: check.found for check in checks}
    assert found["cache report"] == "the engine reports re-used tokens"
    assert found["breaker"] == "closed: the engine uses the tiers"


def test_the_tiers_spans_reach_a_collector_with_the_requests_id(up: Up) -> None:
    text = "What the tier does for this prompt is traced, chunk by chunk. " * 30
    generate(up.facts.engine_url, text, rid="req_traced")

    def names() -> set[str]:
        spans = [json.loads(line) for line in up.collected.read_text().splitlines()[1:]]
        of_request = [
            span["name"]
            for span in spans
            if span.get("attributes", {}).get("session_id") == "req_traced"
        ]
        return set(of_request)

    # Of an engine on a CPU no store is traced: lmcache 0.5.6 does that in lmcache_driven_transfer.
    steps = {"request", "mp.lookup_prefetch"}
    assert eventually(lambda: steps <= names(), within_s=60), names()


def test_a_killed_engine_is_restarted_and_finds_its_prefixes_in_the_tier(up: Up) -> None:
    with stored(up.facts.tier_url):
        generate(up.facts.engine_url, PROMPT)
    assert generate(up.facts.engine_url, PROMPT)["device"] > 0
    first = up.pid("engine-0")
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: up.restarted("engine-0", 1), within_s=RESTART_S)
    assert not is_alive(first)
    used = generate(up.facts.engine_url, PROMPT)
    assert used["device"] == 0
    assert used["storage"] > 0


def test_a_killed_tier_is_restarted_while_the_engine_goes_on(up: Up) -> None:
    engine = up.pid("engine-0")
    os.kill(up.pid("tier"), signal.SIGKILL)
    generate(up.facts.engine_url, "Answered while the tier is away. " + PROMPT)
    assert eventually(lambda: up.restarted("tier", 1), within_s=RESTART_S)
    assert get(f"{up.facts.tier_url}/healthcheck", timeout_s=10).good
    assert up.pid("engine-0") == engine
    assert len(shared_memory(up.home)) == 1


def test_a_killed_supervisor_leaves_no_process_and_no_shared_memory(up: Up) -> None:
    assert marked_processes(up.home)
    up.process.kill()
    up.process.wait(60)
    assert eventually(lambda: not marked_processes(up.home), within_s=60.0)
    assert eventually(lambda: not up.memory_left(), within_s=60.0), up.memory_left()
