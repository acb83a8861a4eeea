"""Gateways in front of several simulated engines."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.settings import ReplicasSettings, RoutingSettings
from bench.engine_sim import ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread
from tests.gateways import (
    gateway_settings,
    running_gateway,
    wait_until_ready,
    wait_until_subscribed,
)

JSONObject = dict[str, Any]
QUESTION = "When does the ferry to the island leave in the morning, and what is a ticket? " * 6


def until(holds: Callable[[], object], *, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


@dataclass
class Site:
    """A gateway and its engines."""

    url: str
    engines: list[SimulatorThread]

    def post(self, text: str = QUESTION, **fields: Any) -> httpx.Response:
        body = {
            "model": "default", "messages": [{"role": "user", "content": text}],
            "max_tokens": 4, "temperature": 0, "foreword": {},
        } | fields  # fmt: skip
        url = f"{self.url}/v1/chat/completions"
        return httpx.post(url, json=body, trust_env=False, timeout=60)

    def ask(self, text: str = QUESTION, **fields: Any) -> JSONObject:
        answer = self.post(text, **fields)
        assert answer.status_code == 200, answer.text
        block: JSONObject = answer.json()["foreword"]
        return block

    def ready(self) -> JSONObject:
        told: JSONObject = httpx.get(f"{self.url}/readyz", trust_env=False).json()
        return told

    def state(self, number: int) -> str:
        return self.state_of(f"engine-{number}")

    def state_of(self, name: str) -> str:
        """Also of one that is the reason why the gateway isn't ready."""
        told = self.operate("GET", "").json()["data"]
        return next((str(each["state"]) for each in told if each["name"] == name), "gone")

    def operate(self, method: str, path: str) -> httpx.Response:
        url = f"{self.url}/foreword/replicas/{path}".rstrip("/")
        return httpx.request(method, url, trust_env=False)

    def fault(self, number: int, **fault: Any) -> None:
        url = f"{self.engines[number].url}/simulator/faults"
        httpx.post(url, json=fault, trust_env=False).raise_for_status()

    def explain(self, request_id: str) -> JSONObject:
        url = f"{self.url}/foreword/explain/{request_id}"
        until(lambda: httpx.get(url, trust_env=False).status_code == 200)
        told: JSONObject = httpx.get(url, trust_env=False).json()
        return told


@contextmanager
def site(
    folder: Path,
    home: Path,
    *,
    replicas: int = 2,
    policy: str = "least-ttft",
    silent_s: float = 30.0,
    **engine: Any,
) -> Iterator[Site]:
    usual = {
        "model_path": folder,
        "clock": ClockConfig(speedup=20),
        "labels": ("template", "tenant"),
        "events": EventsConfig(replay_endpoint="tcp://127.0.0.1:0", topic="kv"),
    } | engine
    with ExitStack() as stack:
        engines = [
            stack.enter_context(SimulatorThread(SimulatorConfig(**usual))) for _ in range(replicas)
        ]
        settings = gateway_settings(home, engines[0].url, silent_s=silent_s).model_copy(
            update={
                "replicas": ReplicasSettings(urls=tuple(each.url for each in engines)),
                "routing": RoutingSettings.model_validate({"policy": policy}),
            }
        )
        url = stack.enter_context(running_gateway(settings))
        wait_until_ready(url)
        wait_until_subscribed(*(each.url for each in engines))
        yield Site(url, engines)


@pytest.fixture
def pair(tokenizer_folder: Path, tmp_path: Path) -> Iterator[Site]:
    with site(tokenizer_folder, tmp_path / "home") as made:
        yield made
