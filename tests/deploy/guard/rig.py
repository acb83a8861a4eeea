"""One engine with its tier in RAM, on a disk and, over a link that can be hurt, in Redis."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from tests.deploy.guard.real import CHUNK_TOKENS, Answer, Engine, Tier, eventually, random_ids
from tests.deploy.guard.slow_link import SlowLink

PROMPT_TOKENS = 1000
STORED_TOKENS = PROMPT_TOKENS // CHUNK_TOKENS * CHUNK_TOKENS
SERDE = {"type": "foreword_aead"}


@dataclass
class Rig:
    """The pair, and what the engine did before it had a tier."""

    engine: Engine
    tier: Tier
    link: SlowLink
    disk: Path
    redis: Any
    answered_without: Answer
    was_open_without: bool

    def forget(self) -> None:
        """What comes next can only come from below RAM."""
        self.engine.flush()
        self.tier.forget_memory()

    def new_prompt(self, salt: str, ids: list[int] | None = None) -> tuple[list[int], Answer]:
        """A cold answer to `ids`, by default new ones, once it is on the disk and in Redis."""
        stored = [self.tier.adapter(name)["stores"] for name in ("ssd", "redis")]
        ids = ids or random_ids(PROMPT_TOKENS)
        cold = self.engine.ask(ids, salt=salt)
        chunks = STORED_TOKENS // CHUNK_TOKENS
        for name, before in zip(("ssd", "redis"), stored, strict=True):
            assert eventually(lambda name=name, before=before: self.grew(name, before, chunks), 60)
        return ids, cold

    def grew(self, name: str, before: dict[str, int], chunks: int) -> bool:
        """Whether an adapter has stored so many chunks since its counts were these."""
        return bool(self.tier.adapter(name)["stores"]["chunks"] >= before["chunks"] + chunks)

    def ask(self, ids: list[int], salt: str) -> tuple[Answer, dict[str, Any], str]:
        """An answer, what served its load, and its request id."""
        request_id = f"test-{secrets.token_hex(8)}"
        answer = self.engine.ask(ids, request_id=request_id, salt=salt)
        load = self.tier.load_of(request_id, held_tokens=answer.device) or {}
        return answer, load, request_id


@contextmanager
def running_rig(python: str, model: str, redis_port: int, home: Path) -> Iterator[Rig]:
    """The engine starts without its tier, answers, and then the tier comes."""
    link = SlowLink(redis_port)
    disk = home / "kv"
    disk.mkdir()
    adapters: list[dict[str, Any]] = [
        {"type": "fs_native", "base_path": str(disk), "serde": SERDE},
        {"type": "resp", "host": "127.0.0.1", "port": link.port, "serde": SERDE},
    ]
    tier = Tier(python, home, adapters)
    waits = {"FOREWORD_TIER_CHUNK_TOKENS": str(CHUNK_TOKENS), "FOREWORD_TIER_START_WAIT_S": "0.5"}
    engine = Engine(python, model, home, tier, environment=waits)
    try:
        engine.start()
        was_open = eventually(lambda: engine.metric("foreword_tier_open") == 1, 60)
        without = engine.ask(random_ids(PROMPT_TOKENS))
        tier.start()
        with redis.Redis(port=redis_port) as client:
            yield Rig(engine, tier, link, disk, client, without, was_open)
    finally:
        engine.close()
        tier.close()
        link.close()
