"""What the contract suites share: an engine to talk to, and plain ways to ask it."""

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import httpx
import orjson
import pytest

Json = dict[str, Any]

_WORDS = (
    "document count answer open noon name price group free question count nine back system user"
)


class EngineUnderTest(Protocol):
    """A running engine, real or simulated.

    It has a cache report, metrics with the custom labels `template` and `tenant`, and KV events
    with replay. Nothing else talks to it while a test runs.
    """

    @property
    def url(self) -> str:
        """Without a trailing slash."""

    @property
    def model_path(self) -> Path:
        """Folder with the model's tokenizer."""

    def salt(self) -> str:
        """A cache salt that nobody has used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedEngine:
    """An engine that somebody else started."""

    url: str
    model_path: Path

    def salt(self) -> str:
        return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event: its data, and None for `[DONE]`."""

    data: Json | None


@dataclass
class Client:
    """A client of one engine, with a salt of its own."""

    engine: EngineUnderTest
    http: httpx.Client = field(init=False)
    salt: str = field(init=False)

    def __post_init__(self) -> None:
        # Nothing here is TLS, and loading certificates would take most of a test's time.
        self.http = httpx.Client(base_url=self.engine.url, timeout=60, verify=False)
        self.salt = self.engine.salt()

    @cached_property
    def page_size(self) -> int:
        return int(self.get("/server_info")["page_size"])

    @cached_property
    def model(self) -> str:
        return str(self.get("/v1/models")["data"][0]["id"])

    @cached_property
    def window(self) -> int:
        return int(self.get("/v1/models")["data"][0]["max_model_len"])

    def page_floor(self, tokens: int) -> int:
        return tokens - tokens % self.page_size

    def get(self, path: str) -> Json:
        answer = self.http.get(path)
        answer.raise_for_status()
        body: Json = answer.json()
        return body

    def post(self, path: str, body: object = None) -> httpx.Response:
        return self.http.post(path, json=body)

    def ids(self, count: int, *, seed: int = 0) -> list[int]:
        """So many ids of this model's own vocabulary; other seeds, other ids from the start."""
        chosen = random.Random(seed).choices(_WORDS.split(), k=count)
        ids: list[int] = self.post("/v1/tokenize", {"prompt": " ".join(chosen)}).json()["tokens"]
        return ids[:count]

    def body(self, prompt: str | list[int], **fields: Any) -> Json:
        """A chat request; a prompt of ids is sent as ids. A field given as None is left out."""
        text = prompt if isinstance(prompt, str) else "unused"
        body: Json = {
            "model": self.model,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": 2,
            "temperature": 0,
            "ignore_eos": True,
            "cache_salt": self.salt,
            "return_cached_tokens_details": True,
        }
        if not isinstance(prompt, str):
            body["input_ids"] = prompt
        return {name: value for name, value in (body | fields).items() if value is not None}

    def chat(
        self, prompt: str | list[int], *, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> Json:
        """A whole answer."""
        body = self.body(prompt, **fields)
        answer = self.http.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        whole: Json = answer.json()
        return whole

    def refusal(self, path: str, body: object) -> Json:
        """The error body of a request that must be refused with status 400."""
        answer = self.post(path, body)
        assert answer.status_code == 400, answer.text
        problem: Json = answer.json()
        return problem

    def stream(
        self, prompt: str | list[int], *, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> list[Event]:
        """All events of a streamed answer."""
        body = self.body(prompt, stream=True, **fields)
        with self.http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            assert answer.status_code == 200, answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            return [_event(line) for line in answer.iter_lines() if line]

    def cached(self, prompt: str | list[int], **fields: Any) -> int:
        """Tokens of the prompt that came out of the engine's own memory."""
        answer = self.chat(prompt, **fields)
        total = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        if total == 0:
            return 0
        details = answer["sglext"]["cached_tokens_details"]
        assert total == details["device"] + details["host"] + details.get("storage", 0)
        return int(details["device"])

    def enough_to_evict(self) -> list[list[int]]:
        """Different prompts of one length that all but the last fit into the engine's memory."""
        capacity = int(self.get("/v1/loads")["loads"][0]["max_total_num_tokens"])
        # A page more for each: what a request needs beside its prompt.
        length = self.page_floor(min(self.window, capacity) // 4 - 2 * self.page_size) + 1
        count = capacity // (length + self.page_size) + 1
        return [self.ids(length, seed=1000 + number) for number in range(count)]

    def flush(self) -> None:
        """Empty the engine's memory; waits for requests that are still being ended."""
        wait_until(lambda: self.post("/flush_cache").status_code == 200)

    def running(self) -> int:
        """Requests the engine computes now."""
        return int(self.get("/v1/loads?include=core")["loads"][0]["num_running_reqs"])

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have all these labels."""
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        total = 0.0
        for line in self.http.get("/metrics").text.splitlines():
            if line.startswith(f"{name}{{") and all(pair in line for pair in wanted):
                total += float(line.rsplit(" ", 1)[1])
        return total


class Contract:
    """A class of tests against the fixture `engine`, which the subclass's module supplies."""

    @pytest.fixture
    def client(self, engine: EngineUnderTest) -> Iterator[Client]:
        client = Client(engine)
        with client.http:
            yield client


def wait_until(done: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
    """Poll until something is true; fails the test when it never is."""
    give_up_s = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < give_up_s, f"not within {timeout_s} s"
        time.sleep(0.05)


def text_of(events: list[Event]) -> str:
    """All that a stream's first choice said."""
    choices = [c for e in events if e.data for c in e.data["choices"] if c["index"] == 0]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def _event(line: str) -> Event:
    assert line.startswith("data: "), line
    data = line.removeprefix("data: ")
    return Event(None if data == "[DONE]" else orjson.loads(data))
