"""The gateway's services in front of a simulated engine, and collections in them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import pytest

from app.callers import LOCAL_TENANT
from app.corpora import CorpusState, CorpusStatus
from app.probes import ProbeAnswer, ask
from app.services import Services, open_services
from app.settings import CorporaSettings, Settings
from bench.engine_sim import (
    ClockConfig,
    EventsConfig,
    EvictionPolicy,
    SimulatorConfig,
    SimulatorThread,
)
from prompts import render
from prompts.render import Value
from retrieval import Collection
from tests.app.conditions import becomes
from tests.engines import flush
from tests.gateways import gateway_settings

PAGE = 16
QUICK = CorporaSettings(watch_s=0.05, step_tokens=256, reserve_tokens=64)


def simulator_config(folder: Path, *, events: bool = True, **fields: object) -> SimulatorConfig:
    """An engine as `foreword up` starts it: KV events, priorities."""
    settings: dict[str, object] = {
        "model_path": folder,
        "page_size": PAGE,
        "clock": ClockConfig(speedup=50),
        "events": EventsConfig(replay_endpoint="tcp://127.0.0.1:0", topic="kv") if events else None,
        "eviction": EvictionPolicy.PRIORITY,
        "priority_scheduling": True,
    }
    return SimulatorConfig(**{**settings, **fields})  # type: ignore[arg-type]


def corpus_settings(
    home: Path, simulator: SimulatorThread, corpora: CorporaSettings = QUICK
) -> Settings:
    settings = gateway_settings(home, simulator.url)
    return settings.model_copy(update={"corpora": corpora})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """Services, and the engine behind them."""

    services: Services
    simulator: SimulatorThread

    def collection(self, name: str, *texts: str, priority: int = 0) -> Collection:
        """A new collection with a file for each text."""
        made = self.services.collections.create(name, tenant=LOCAL_TENANT, priority=priority)
        for number, text in enumerate(texts):
            self.add(made, f"{number}.txt", text)
        return self.again(made)

    def add(self, collection: Collection, name: str, text: str) -> str:
        """Add a file; returns its id."""
        collections = self.services.collections
        file = collections.save_file(name, text.encode(), "assistants", tenant=LOCAL_TENANT)
        collections.add_file(collection.id, file.id, tenant=LOCAL_TENANT)
        return file.id

    def again(self, collection: Collection) -> Collection:
        """The collection as it is now."""
        return self.services.collections.get(collection.id, tenant=LOCAL_TENANT)

    def status(self, collection: Collection) -> CorpusStatus:
        found = self.services.corpora.status(collection.id)
        assert found is not None
        return found

    async def state(
        self, collection: Collection, state: CorpusState, *, within_s: float = 60.0
    ) -> CorpusStatus:
        """Its status, once it is in a state."""
        reached = await becomes(lambda: self.status(collection).state is state, within_s=within_s)
        assert reached, self.status(collection)
        return self.status(collection)

    async def question(self, collection: Collection, text: str) -> ProbeAnswer:
        """What a user's request in mode cag is to the engine."""
        prefix = await self.services.corpora.prefix(self.again(collection))
        values: dict[str, Value] = {"documents": prefix.documents, "question": text}
        if prefix.pad:
            values["pad"] = prefix.pad
        prompt = render(self.services.templates.find("docqa"), values)
        view = self.services.fleet.view()
        assert view.tokenizer is not None
        return await ask(
            self.services.fleet.any().client,
            view.tokenizer.tokenize(prompt).token_ids,
            salt=self.services.salts.of(collection.tenant, collection.id),
            priority=self.services.corpora.request_priority(),
        )

    async def flush(self) -> None:
        await anyio.to_thread.run_sync(flush, self.simulator.url)


@asynccontextmanager
async def rig(settings: Settings, simulator: SimulatorThread) -> AsyncIterator[Rig]:
    """Running services that have met the engine."""
    async with open_services(settings) as services:
        yield Rig(services=services, simulator=simulator)


def long_text(words: str, times: int) -> str:
    return " ".join(f"{words} number {i}." for i in range(times))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"
