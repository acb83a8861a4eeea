"""Gateways' shared views on a real Redis, and whole gateways before simulated engines."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.books import Books, BookShelf
from app.fleet.fleet import Fleet
from app.fleet.opening import open_fleet
from app.settings import AccountingSettings, GatewaySettings, ReplicasSettings, Settings
from app.shared_views.outbox import Outbox
from app.shared_views.views import SharedViews
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from cache.accounting import Accountant
from cache.page_keys import PageKeys
from cache.prefix_index import PrefixIndex
from tests.app.admission.conftest import RedisServer, redis_server
from tests.app.fleet.conftest import until
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

__all__ = ["redis_server"]

SECRET = bytes(range(32))
PAGE_TOKENS = 4


class Gateway:
    """What of a gateway takes part: its index, its fleet (nobody answers there), its views."""

    def __init__(self, redis_url: str, *, secret: bytes = SECRET) -> None:
        settings = Settings()
        self.outbox = Outbox()
        self.shelf = BookShelf(AccountingSettings(), key=secret, teller=self.outbox)
        self.index = PrefixIndex(page_tokens=PAGE_TOKENS, key=secret)
        self.telling = self.outbox.telling(self.index)
        self.shelf.current = Books(
            of=("model", PAGE_TOKENS), index=self.index, accountant=Accountant(self.telling)
        )
        self.fleet: Fleet = open_fleet(settings, self.shelf)
        self.views = SharedViews(
            redis_url, secret=secret, outbox=self.outbox, shelf=self.shelf, fleet=self.fleet
        )

    def answer(self, pages: int, *, at: float) -> PageKeys:
        """A prompt of its own, sent to engine-0 and computed there."""
        keys = self.index.keys([pages * 1000 + n for n in range(pages * PAGE_TOKENS)])
        self.telling.sent(keys, salt="s", replica="engine-0", at=at)
        self.telling.computed(keys, salt="s", replica="engine-0", at=at)
        return keys

    def held(self, keys: PageKeys) -> int:
        found = self.index.match(keys, salt="s", sent_at=1e12).replicas.get("engine-0")
        return found.resident_at_least if found else 0


@pytest.fixture
async def gateways(redis_server: RedisServer) -> AsyncIterator[list[Gateway]]:
    made = [Gateway(redis_server.url) for _ in range(3)]
    for each in made:
        await each.fleet.add("http://127.0.0.1:9", name="engine-0")
    yield made
    for each in made:
        await each.views.close()
        each.fleet.close()


@dataclass
class Whole:
    """A running gateway."""

    url: str

    def post(self, text: str, **fields: Any) -> httpx.Response:
        body = {
            "model": "default", "messages": [{"role": "user", "content": text}],
            "max_tokens": 4, "temperature": 0, "foreword": {},
        } | fields  # fmt: skip
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, trust_env=False, timeout=60)

    def ask(self, text: str, **fields: Any) -> dict[str, Any]:
        answer = self.post(text, **fields)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()["foreword"]
        return told

    @contextmanager
    def flying(self, text: str) -> Iterator[None]:
        """While a request is under way whose answer would take minutes."""
        body = {
            "model": "default", "messages": [{"role": "user", "content": text}],
            "max_tokens": 6000, "stream": True,
        }  # fmt: skip
        url = f"{self.url}/v1/chat/completions"
        with httpx.stream("POST", url, json=body, trust_env=False, timeout=60) as answer:
            assert answer.status_code == 200
            yield

    def ready(self) -> dict[str, Any]:
        told: dict[str, Any] = httpx.get(f"{self.url}/readyz", trust_env=False).json()
        return told

    def gateways(self) -> dict[str, Any]:
        told: dict[str, Any] = self.ready()["gateways"]
        return told

    def operate(self, method: str, path: str, **body: Any) -> httpx.Response:
        url = f"{self.url}/foreword/replicas/{path}".rstrip("/")
        return httpx.request(method, url, json=body or None, trust_env=False)

    def states(self) -> dict[str, str]:
        return {each["name"]: each["state"] for each in self.operate("GET", "").json()["data"]}


@contextmanager
def engines(folder: Path, number: int = 2, **config: Any) -> Iterator[list[SimulatorThread]]:
    """Simulated engines that publish no KV events."""
    usual = {
        "model_path": folder,
        "clock": ClockConfig(speedup=20),
        "labels": ("template", "tenant"),
    } | config
    with ExitStack() as stack:
        yield [
            stack.enter_context(SimulatorThread(SimulatorConfig(**usual))) for _ in range(number)
        ]


@contextmanager
def whole(home: Path, before: list[SimulatorThread], redis_url: str | None) -> Iterator[Whole]:
    """A gateway; two on one home have one database and one secret."""
    told = SecretStr(redis_url) if redis_url else None
    settings = gateway_settings(home, before[0].url).model_copy(
        update={
            "gateway": GatewaySettings(port=0, redis_url=told),
            "replicas": ReplicasSettings(urls=tuple(each.url for each in before)),
        }
    )
    with running_gateway(settings) as url:
        wait_until_ready(url)
        made = Whole(url)
        if redis_url:
            until(lambda: made.gateways()["caught_up"])
        yield made
