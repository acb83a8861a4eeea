"""A whole stack on the tiny model whose tiers are small, and whose Redis and disk can be hurt.

The gateway is a process of its own, as `foreword up` starts it. RAM holds two and a half times what
the engine's pool holds, so that a few dozen prompts fill first the one and then the other.
"""

import json
import os
import secrets
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from app.stack.backoff import RestartPolicy
from app.stack.running import RunningStack
from app.stack.settings import EngineOptions, StackSettings
from app.stack.stack import start_stack
from cache.engine_metrics import CacheSource, parse_engine_metrics
from cache.tiers import RedisTier, TierSettings
from tests.deploy.guard.real import Process, free_port
from tests.deploy.guard.slow_link import SlowLink

PAGE_TOKENS, CHUNK_TOKENS = 16, 64
POOL_TOKENS = 6_000
RAM_GB = 0.125  # 256 chunks of the tiny model
RAM_TOKENS = 16_384
TOLERANCE = 1e-3
FLUSH_S = 1.0
TIERS = ("gpu", "ram", "ssd", "redis")
WORDS = (
    "ferry island harbour lighthouse ticket dog morning winter crossing luggage bicycle captain "
    "timetable storm bridge child evening price return window"
).split()

Tokens = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a client got: an answer, or the code of an error. `code` None with no text: no answer
    at all, because the connection broke."""

    prompt: str
    ended: float
    elapsed_s: float
    text: str | None = None
    logprobs: tuple[float, ...] = ()
    block: Mapping[str, Any] = field(default_factory=dict)
    code: str | None = None

    @property
    def answered(self) -> bool:
        return self.text is not None

    @property
    def request_id(self) -> str:
        return str(self.block["request_id"])

    @property
    def tokens(self) -> int:
        """Tokens of the prompt."""
        return int(self.block["prompt_tokens"])

    @property
    def served(self) -> Tokens:
        """Re-used tokens by tier."""
        return {tier: self.block["cached_by_tier"][tier] for tier in TIERS}

    def is_like(self, cold: "Reply") -> bool:
        """Whether it says what was said when everything was computed."""
        if self.text != cold.text or len(self.logprobs) != len(cold.logprobs):
            return False
        pairs = zip(self.logprobs, cold.logprobs, strict=True)
        return max(abs(one - other) for one, other in pairs) < TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStack:
    """The running parts, and a client's and an operator's view of them."""

    running: RunningStack
    redis: Process
    redis_port: int
    link: SlowLink

    @property
    def url(self) -> str:
        url = self.running.url
        assert url is not None
        return url

    @property
    def disk(self) -> Path:
        return self.running.home.tier_disk

    def ask(self, prompt: str, *, max_tokens: int = 6) -> Reply:
        """One question, answered greedily."""
        body = {
            "model": "default", "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "logprobs": True,
            "foreword": {},
        }  # fmt: skip
        began = time.monotonic()
        try:
            answer = httpx.post(
                f"{self.url}/v1/chat/completions", json=body, timeout=60, trust_env=False
            )
        except httpx.TransportError:
            return _reply(prompt, began)
        made = answer.json()
        if answer.status_code != 200:
            return _reply(prompt, began, code=made["error"]["code"])
        choice = made["choices"][0]
        return _reply(
            prompt,
            began,
            text=choice["message"]["content"],
            logprobs=tuple(token["logprob"] for token in choice["logprobs"]["content"]),
            block=made["foreword"],
        )

    def remembered(self, words: int) -> Reply:
        """The cold answer to a new prompt, once the disk and Redis have it."""
        self.let_stores_end()
        reply = self.ask(new_prompt(words))
        assert reply.answered, reply
        self.let_stores_end()
        return reply

    def let_stores_end(self) -> None:
        """Stores into the disk and Redis are nobody's business but the tier's."""
        before, still = self._stored(), 0
        while still < 4:
            time.sleep(0.1)
            after = self._stored()
            still, before = (still + 1 if after == before else 0), after

    def _stored(self) -> list[int]:
        return [adapter["stores"]["chunks"] for adapter in self.tier_status()["adapters"]]

    def fill(self, tokens: int) -> None:
        """Other prompts, as many as take so many tokens."""
        prompts = [new_prompt(FILLER_WORDS) for _ in range(tokens // FILLER_TOKENS + 1)]
        with ThreadPoolExecutor(3) as clients:
            replies = list(clients.map(lambda prompt: self.ask(prompt, max_tokens=1), prompts))
        assert all(reply.answered for reply in replies), replies
        assert min(reply.tokens for reply in replies) >= FILLER_TOKENS

    def flush_engine(self) -> None:
        assert eventually(
            lambda: httpx.post(f"{self.running.engine_url}/flush_cache").is_success, 10
        )

    def clear_ram(self) -> None:
        self._tier("POST", "/cache/clear", {"tier": "l1"})

    def forget(self) -> None:
        """What comes next can only come from the disk or Redis."""
        self.let_stores_end()
        self.flush_engine()
        self.clear_ram()

    @contextmanager
    def switched_off(self, adapter: str) -> Iterator[None]:
        """An operator's switch: no look-ups and no loads meanwhile."""
        path = f"/foreword/adapters/{adapter}"
        self._tier("PUT", path, {"enabled": False, "reason": "for a test"})
        try:
            yield
        finally:
            self._tier("PUT", path, {"enabled": True, "reason": ""})

    def tier_status(self) -> dict[str, Any]:
        made: dict[str, Any] = self._tier("GET", "/foreword/status", None).json()
        return made

    def adapter(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {a["name"]: a for a in self.tier_status()["adapters"]}[name]
        return found

    def _tier(self, method: str, path: str, body: object) -> httpx.Response:
        url = f"{self.running.tier_url}{path}"
        answer = httpx.request(method, url, json=body, timeout=10, trust_env=False)
        return answer.raise_for_status()

    def ready(self) -> dict[str, Any]:
        """What `/readyz` says; nothing, while there is no gateway."""
        with suppress(httpx.TransportError):
            made: dict[str, Any] = httpx.get(f"{self.url}/readyz", timeout=10).json()
            return made
        return {"status": "gone", "reasons": []}

    def says(self, words: str) -> bool:
        """Whether `/readyz` has a reason with these words."""
        return any(words in reason for reason in self.ready()["reasons"])

    def is_well(self) -> bool:
        """All parts answer, and the tiers are used."""
        ready = self.ready()
        return (
            ready["status"] in ("ok", "degraded")
            and not any("tier" in r and "gave back" not in r for r in ready["reasons"])
            and all(adapter["state"] == "ok" for adapter in self.tier_status()["adapters"])
        )

    def report(self) -> dict[str, Any]:
        answer = httpx.get(f"{self.url}/foreword/report", timeout=30, trust_env=False)
        made: dict[str, Any] = answer.raise_for_status().json()
        return made

    def engine_count(self) -> Tokens:
        """The engine's own sums of what it re-used for chat@1, by source."""
        text = httpx.get(f"{self.running.engine_url}/metrics", trust_env=False).text
        found = parse_engine_metrics(text, at=datetime.now(UTC)).cached
        ours = [series for series in found if series.template == "chat@1"]
        return {
            source.value: sum(series.tokens for series in ours if series.source is source)
            for source in (CacheSource.DEVICE, CacheSource.STORAGE)
        }

    def rows(self) -> dict[str, dict[str, Any]]:
        """The ledger's rows in the database, by request id."""
        path = self.running.home.root / "foreword.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            found = [dict(row) for row in database.execute("select * from ledger")]
        return {row["request_id"]: row for row in found}

    def kill(self, part: str) -> int:
        """SIGKILL; how often the part had been started again before."""
        restarts = self.running.restarts(part)
        os.kill(self.running.pids[part], signal.SIGKILL)
        return restarts

    def is_back(self, part: str, restarts: int) -> bool:
        """Whether a killed part runs again and the stack is well."""
        return self.running.restarts(part) > restarts and self._answers(part) and self.is_well()

    def _answers(self, part: str) -> bool:
        keeper = part in self.running.pids
        url = {"tier": self.running.tier_url, "engine": self.running.engine_url}.get(part)
        if not keeper or url is None:
            return keeper
        with suppress(httpx.TransportError):
            path = "/foreword/status" if part == "tier" else "/ready"
            return httpx.get(f"{url}{path}", timeout=5).is_success
        return False

    def start_redis(self) -> None:
        port = str(self.redis_port)
        self.redis.spawn(["redis-server", "--port", port, "--save", "", "--appendonly", "no"], {})


FILLER_WORDS, FILLER_TOKENS = 400, 800


def _reply(prompt: str, began: float, **found: Any) -> Reply:
    now = time.monotonic()
    return Reply(prompt=prompt, ended=now, elapsed_s=now - began, **found)


def new_prompt(words: int) -> str:
    """A text that nobody has sent before."""
    return " ".join([secrets.token_hex(8), *(secrets.choice(WORDS) for _ in range(words))])


def eventually(condition: Callable[[], bool], within_s: float) -> bool:
    """Whether it became true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


class Traffic:
    """A few clients that ask the same prompts over and over, and keep what they got.

    Together the prompts are more than the engine's pool holds, so that each has to come from the
    tiers, or be computed, every time.
    """

    def __init__(self, stack: TierStack, cold: Sequence[Reply], *, clients: int = 2) -> None:
        self.replies: list[Reply] = []
        self._stack = stack
        self._cold = {reply.prompt: reply for reply in cold}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(number,)) for number in range(clients)
        ]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(90)

    @property
    def failures(self) -> list[Reply]:
        return [reply for reply in self.replies if not reply.answered]

    @property
    def wrong(self) -> list[Reply]:
        """Answers that differ from the cold ones."""
        answers = [reply for reply in self.replies if reply.answered]
        return [reply for reply in answers if not reply.is_like(self._cold[reply.prompt])]

    @property
    def slowest_s(self) -> float:
        return max(reply.elapsed_s for reply in self.replies)

    def goes_on(self, requests: int) -> bool:
        """Whether so many more requests were answered soon."""
        enough = len(self.replies) + requests
        return eventually(lambda: len(self.replies) >= enough, 30)

    def _ask(self, number: int) -> None:
        prompts = list(self._cold)
        turn = number * len(prompts) // len(self._threads)
        while not self._stop.is_set():
            self.replies.append(self._stack.ask(prompts[turn % len(prompts)]))
            turn += 1
            time.sleep(0.02)


@contextmanager
def full_disk(stack: TierStack) -> Iterator[None]:
    """A disk tier on which not one chunk has room.

    A small file system is mounted over it; where that isn't allowed, the kernel refuses the tier
    server files of more than a few bytes.
    """
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(stack.disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode == 0:
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", str(stack.disk)], check=True)
        return
    limit = ["prlimit", "--pid", str(stack.running.pids["tier"])]
    subprocess.run([*limit, "--fsize=4096:"], check=True)
    try:
        yield
    finally:
        subprocess.run([*limit, "--fsize=unlimited:"], check=True)


@contextmanager
def running_tier_stack(home: Path, cache: Path, model: Path) -> Iterator[TierStack]:
    """Redis behind a link, then all the rest."""
    port = free_port()
    redis = Process(home / "redis.log")
    link = SlowLink(port)
    # Break-even would rightly switch off tiers that are slower than a model of this size.
    env = {"FOREWORD_RETRIEVAL__EMBEDDER": "hashing", "FOREWORD_TIERS__BREAK_EVEN": "warn"}
    settings = StackSettings(
        home=home / "stack",
        cache=cache,
        base_env=os.environ | env,
        model=str(model),
        engine=EngineOptions(pool_tokens=POOL_TOKENS),
        tiers=TierSettings(
            ram_gb=RAM_GB,
            ssd_gb=0.5,
            redis=RedisTier(host="127.0.0.1", port=link.port),
            breaker_retry_s=1.0,
        ),
        port=0,
        cpu=True,
        restart=RestartPolicy(first_s=0.2),
    )
    try:
        redis.spawn(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"], {})
        with start_stack(settings, say=print) as running:
            stack = TierStack(running=running, redis=redis, redis_port=port, link=link)
            assert eventually(stack.is_well, 60), json.dumps(stack.ready())
            yield stack
    finally:
        redis.kill()
        link.close()
