"""A gateway with an agent whose tools write into a file, before an engine that calls them."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import openai
import pytest

from app.settings import AgentsSettings
from bench.engine_sim import CallConfig, ClockConfig, SimulatorConfig, SimulatorThread
from tests.app.agents.notes import AGENT, NoteTools, written
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

Script = tuple[tuple[CallConfig, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Harbour:
    """What a test of an agent talks to."""

    url: str
    client: openai.OpenAI
    http: httpx.Client
    notes: Path
    engine: str

    @property
    def lines(self) -> list[str]:
        """One for each call that was made."""
        return written(self.notes)


Opens = Callable[..., AbstractContextManager[Harbour]]


@pytest.fixture(scope="session")
def calling_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder whose answers have an end."""
    folder = write_tokenizer(
        tmp_path_factory.mktemp("calling") / "tiny", chat_template=CHATML_TOOLS
    )
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    return folder


@pytest.fixture(scope="module")
def plain(calling_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbour]:
    """One whose engine calls nothing."""
    with _opened(calling_model, tmp_path_factory.mktemp("plain"), ()) as opened:
        yield opened


@pytest.fixture
def harbour(calling_model: Path, tmp_path: Path) -> Opens:
    """Opens a gateway, whose engine follows a script."""

    return partial(_opened, calling_model, tmp_path)


@contextmanager
def _opened(
    model: Path, tmp_path: Path, script: Script, *agents: str, takes_s: float = 0.0
) -> Iterator[Harbour]:
    folder = tmp_path / "agents"
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(agents or (AGENT,)):
        (folder / f"agent{number}.yaml").write_text(text)
    notes = tmp_path / "notes.txt"
    config = SimulatorConfig(
        model_path=model,
        script=script,
        eos_every_tokens=12,
        context_tokens=16_384,
        capacity_tokens=40_000,
        clock=ClockConfig(speedup=50),
    )
    with SimulatorThread(config) as simulator:
        settings = gateway_settings(tmp_path / "home", simulator.url).model_copy(
            update={"agents": AgentsSettings(folder=folder, lease_s=1.0)}
        )
        with (
            running_gateway(settings, NoteTools(path=notes, takes_s=takes_s)) as url,
            httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
            openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client,
        ):
            wait_until_ready(url)
            yield Harbour(url=url, client=client, http=http, notes=notes, engine=simulator.url)
