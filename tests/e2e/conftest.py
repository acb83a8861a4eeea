"""The whole stack as a person starts it: `foreword up`, with the small real model."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import openai
import pytest

from tests.e2e.tier_stack import TierStack, running_tier_stack
from tests.processes import end

ROOT = Path(__file__).parent.parent.parent
_START_S = 900.0
_STOP_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStack:
    """A running `foreword up`: where it answers, what it printed, and its environment."""

    url: str
    printed: str
    home: Path
    env: dict[str, str] = field(repr=False)

    def run(self, command: str, *, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """A command line as typed into another terminal."""
        return subprocess.run(
            ["bash", "-c", command],
            env=self.env, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip


@pytest.fixture(scope="session")
def user_stack(engine_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserStack]:
    """`foreword up` until it prints its address; stopped by Ctrl-C."""
    home = tmp_path_factory.mktemp("user") / "home"
    binaries = str(Path(sys.executable).parent)
    env = {name: v for name, v in os.environ.items() if not name.startswith("FOREWORD_")} | {
        "FOREWORD_HOME": str(home),
        "FOREWORD_CACHE": str(engine_cache),
        "PATH": f"{binaries}:{os.environ['PATH']}",
    }
    command = [f"{binaries}/foreword", "up", "--port", "0", "--cpu"]
    process = subprocess.Popen(
        command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed = _read_until_ready(process)
        match = re.search(r"http://[\d.:]+", printed)
        assert match, printed
        yield UserStack(url=match.group(), printed=printed, home=home, env=env)
    finally:
        try:
            code = end(process, signal.SIGINT, within_s=_STOP_S)
        finally:
            if process.stdout is not None:
                process.stdout.close()
    assert code == 0


@pytest.fixture(scope="session")
def sdk(user_stack: UserStack) -> Iterator[openai.OpenAI]:
    """The unmodified OpenAI SDK."""
    with openai.OpenAI(base_url=f"{user_stack.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def tier_stack(
    engine_cache: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TierStack]:
    """The tiny model with small tiers and a gateway; leave it with all parts in use."""
    home = tmp_path_factory.mktemp("tiers")
    with running_tier_stack(home, engine_cache, tiny_model) as stack:
        yield stack


def _read_until_ready(process: "subprocess.Popen[str]") -> str:
    """What `up` prints on stdout, to the line with the first question."""
    assert process.stdout is not None
    watchdog = threading.Timer(_START_S, process.kill)
    watchdog.start()
    printed = ""
    try:
        for line in process.stdout:
            printed += line
            if "foreword ask" in line:
                return printed
    finally:
        watchdog.cancel()
    raise AssertionError(f"`foreword up` ended with {process.wait()}: {printed}")
