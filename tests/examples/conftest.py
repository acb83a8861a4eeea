"""One gateway before one simulated engine, with the ferry's documents and the example's agent."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from app.settings import AgentsSettings
from bench.engine_sim import CallConfig, ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
# Far more than any takes: an example that hangs must not hang the run.
_LONGEST_S = 100


def _call(name: str, **arguments: str) -> tuple[CallConfig, ...]:
    written = json.dumps(arguments)
    return (CallConfig(text=f"\n{name} {written} ", name=name, arguments=written),)


# Where the model may call tools, it searches, reads, and answers.
_SCRIPT = (
    _call("search", query="What does a dog pay?"),
    _call("read_document", document="fares.md"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Runs commands as README.md says, in a folder that has what a clone has for them."""

    folder: Path
    environment: Mapping[str, str]

    def run(
        self,
        *command: str | Path,
        where: Path | None = None,
        status: int = 0,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """What it printed, stderr behind stdout; it must end with this status."""
        done = subprocess.run(
            command,
            cwd=where or self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
        shown = done.stdout + done.stderr
        assert done.returncode == status, f"{command} ended with {done.returncode}:\n{shown}"
        return shown


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's folder, below a cache in which commands find it to count tokens with."""
    models = tmp_path_factory.mktemp("cache") / "models"
    folder = write_tokenizer(models / "made", chat_template=CHATML_TOOLS)
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (models / "made.json").write_text('{"folder": "made"}')
    return folder


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[SimulatorThread]:
    config = SimulatorConfig(
        model_path=model,
        labels=("template", "tenant"),
        opening="As [fares.md] has it: ",
        script=_SCRIPT,
        eos_every_tokens=12,
        context_tokens=16_384,
        capacity_tokens=60_000,
        clock=ClockConfig(speedup=50),
        events=EventsConfig(replay_endpoint="tcp://127.0.0.1:0", topic="kv"),
    )
    with SimulatorThread(config) as running:
        yield running


@pytest.fixture(scope="module")
def examples(
    model: Path, engine: SimulatorThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Examples]:
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("clone")
    for name in ("examples", "samples"):
        shutil.copytree(ROOT / name, folder / name)
    settings = gateway_settings(home, engine.url).model_copy(
        update={"agents": AgentsSettings(folder=EXAMPLES / "agent")}
    )
    with running_gateway(settings) as url:
        wait_until_ready(url)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "NO_PROXY": "*",
            "FOREWORD_HOME": str(home),
            "FOREWORD_CACHE": str(model.parent.parent),
            "FOREWORD_URL": url,
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "unused",
        }
        running = Examples(folder=folder, environment=environment)
        running.run("foreword", "ingest", "ferry", "samples/ferry")
        yield running
