"""A whole stack on the tiny model whose tiers are small, and whose Redis and disk can be hurt.

The gateway is a process of its own, as `foreword up` starts it. RAM holds two and a half times what
the engine's pool holds, so that a few dozen prompts fill first the one and then the other.
"""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from app.stack.backoff import RestartPolicy
from app.stack.running import RunningStack
from app.stack.settings import EngineOptions, StackSettings
from app.stack.stack import start_stack
from app.stack.stack_file import read_stack_file
from cache.engine_metrics import CacheSource, parse_engine_metrics
from cache.tiers import RedisTier, TierSettings
from tests.deploy.guard.real import Process, free_port
from tests.deploy.guard.slow_link import SlowLink
from tests.e2e.replies import Reply, Tokens, new_prompt
from tests.engines import flush, let_stores_end, stored

PAGE_TOKENS, CHUNK_TOKENS = 16, 64
POOL_TOKENS = 6_000
RAM_GB = 0.125  # 256 chunks of the tiny model
RAM_TOKENS = 16_384
_TURN_OVER_S = 120.0
_LOOKS, _LOOK_S = 8, 0.3
_FILLER_WORDS, _FILLER_TOKENS = 400, 1_100


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
            return Reply.to(prompt, began)
        made = answer.json()
        if answer.status_code != 200:
            return Reply.to(prompt, began, code=made["error"]["code"])
        choice = made["choices"][0]
        return Reply.to(
            prompt,
            began,
            text=choice["message"]["content"],
            logprobs=tuple(token["logprob"] for token in choice["logprobs"]["content"]),
            block=made["foreword"],
        )

    def remembered(self, words: int) -> Reply:
        """The cold answer to a new prompt, once the disk and Redis have it."""
        (reply,) = self.all_remembered(1, words)
        return reply

    def all_remembered(self, prompts: int, words: int) -> list[Reply]:
        """The same for several."""
        with stored(self.running.tier_url):
            replies = [self.ask(new_prompt(words)) for _ in range(prompts)]
            assert all(reply.answered for reply in replies), replies
        return replies

    def fill(self, tokens: int) -> None:
        """Other prompts, as many as take so many tokens, and all of them stored.

        Until then RAM has no room for what comes back from a disk.
        """
        prompts = [new_prompt(_FILLER_WORDS) for _ in range(tokens // _FILLER_TOKENS + 1)]
        with ThreadPoolExecutor(3) as clients:
            replies = list(clients.map(self._ask_at_length, prompts))
        assert all(reply.answered for reply in replies), replies
        assert min(reply.tokens for reply in replies) >= _FILLER_TOKENS
        let_stores_end(self.running.tier_url)

    def turn_ram_over(self) -> None:
        """Other prompts, until as much as RAM holds has gone from it, and it has room again.

        Where many are stored at once, some find no room and aren't stored. What comes from a disk
        needs room, too, which RAM makes from time to time.
        """
        give_up = time.monotonic() + _TURN_OVER_S
        wanted = self._evicted() + RAM_TOKENS // CHUNK_TOKENS
        while self._evicted() < wanted:
            assert time.monotonic() < give_up, "RAM keeps what it has"
            self.fill(RAM_TOKENS)
        before, still = self._evicted(), 0
        while still < _LOOKS:
            assert time.monotonic() < give_up, "there is no end of evictions"
            time.sleep(_LOOK_S)
            after = self._evicted()
            still, before = (still + 1 if after == before else 0), after

    def _evicted(self) -> int:
        """Chunks that RAM has dropped so far."""
        return int(self.tier_status()["evictions"]["ram"])

    def _ask_at_length(self, prompt: str) -> Reply:
        """For an answer that fills a page: the engine counts such a prompt one priority higher,
        and would keep the others' prompts before any that counts less."""
        return self.ask(prompt, max_tokens=PAGE_TOKENS + 1)

    def flush_engine(self) -> None:
        flush(self.running.engine_url)

    def clear_ram(self) -> None:
        self._tier("POST", "/cache/clear", {"tier": "l1"})

    def forget(self) -> None:
        """What comes next can only come from the disk or Redis."""
        let_stores_end(self.running.tier_url)
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
        answer = httpx.request(method, url, json=body, trust_env=False)
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
        with suppress(httpx.HTTPError):
            ready, status = self.ready(), self.tier_status()
            told = [r for r in ready["reasons"] if "tier" in r and not _is_harmless(r)]
            used = all(adapter["state"] == "ok" for adapter in status["adapters"])
            return ready["status"] in ("ok", "degraded") and used and not told
        return False

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
        """Whether a killed part was started again and all is well."""
        facts = read_stack_file(self.running.home.stack_file)
        assert facts is not None
        process = facts.processes[part]
        return process.restarts > restarts and process.state == "ready" and self.is_well()

    def start_redis(self) -> None:
        start_redis(self.redis, self.redis_port)


def _is_harmless(reason: str) -> bool:
    """What stays true of tiers that were damaged once, and of this small model where it lies."""
    return any(words in reason for words in ("gave back", "slower than computing", "FW721"))


def start_redis(process: Process, port: int) -> None:
    """One that keeps nothing on a disk."""
    process.spawn(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"], {})


def eventually(condition: Callable[[], bool], within_s: float) -> bool:
    """Whether it became true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@contextmanager
def running_tier_stack(home: Path, cache: Path, model: Path) -> Iterator[TierStack]:
    """Redis behind a link, then all the rest."""
    port = free_port()
    redis = Process(home / "redis.log")
    link = SlowLink(port)
    env = {
        "FOREWORD_RETRIEVAL__EMBEDDER": "hashing",
        # It would rightly switch off tiers that are slower than a model of this size.
        "FOREWORD_TIERS__BREAK_EVEN": "warn",
        # Every split is wanted, on a machine that has other work too.
        "FOREWORD_ACCOUNTING__TIER_WAIT_S": "2",
        "FOREWORD_ACCOUNTING__EVENT_WAIT_S": "0.1",
    }
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
        start_redis(redis, port)
        with start_stack(settings, say=print) as running:
            stack = TierStack(running=running, redis=redis, redis_port=port, link=link)
            assert eventually(stack.is_well, 60), json.dumps(stack.ready())
            yield stack
    finally:
        redis.kill()
        link.close()
