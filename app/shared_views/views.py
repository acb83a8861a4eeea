"""Several gateways see the same replicas: what each sent where, and has under way, through Redis.

All of it runs beside the requests. Without Redis each gateway goes by what it sent itself.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import redis.asyncio
import structlog
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

import app.admission
from app.books import Books, BookShelf
from app.fleet.fleet import Fleet
from app.replica import Replica
from app.shared_views.inbox import Here, Inbox
from app.shared_views.outbox import Outbox
from app.shared_views.wire import Load, Presence, Seal, ToldReplica

_TIMEOUT_S = 1.0
_BUSY_S = 0.05
_IDLE_S = 0.25
_AGAIN_S = 1.0
_LIFETIME_S = 5
_READ_AT_ONCE = 50
# What Redis keeps for gateways that join later, about.
_KEPT_BYTES = 64 * 2**20
_KEPT_S = 3600
_FEWEST_KEPT = 256
_MOST_KEPT = 100_000
_TRIM_S = 60.0
# So long after events were lost the requests of others help to learn anew what is resident.
_LOST_S = 600.0
_EXCHANGE = Path(app.admission.__file__).parent / "lua" / "exchange.lua"


class SharedViews:
    """One gateway's part.

    Attributes:
        up: whether Redis answered last.
        failures: how often it was lost.
        others: gateways that were heard of lately.
        caught_up: whether all that was written before this gateway came has been read.
        history_s: seconds before this gateway came that Redis could still tell of.

    Args:
        url: `redis://…`; a password in it is never shown.
        outbox: what this gateway has to tell.
    """

    def __init__(
        self, url: str, *, secret: bytes, outbox: Outbox, shelf: BookShelf, fleet: Fleet
    ) -> None:
        self._redis = redis.asyncio.Redis.from_url(
            url,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._exchange = self._redis.register_script(_EXCHANGE.read_text("utf-8"))
        self._seal = Seal(secret)
        self._gateways = f"foreword:views:gateways:{self._seal.channel('gateways')}"
        self._outbox = outbox
        self._shelf = shelf
        self._fleet = fleet
        self._books: Books | None = None
        self._stream = ""
        self._read = b"-"
        self._joined_ms = 0
        self._inbox: Inbox | None = None
        self._mean_bytes = 4096.0
        self._trimmed_at = -_TRIM_S
        self._lost: dict[str, tuple[int, float]] = {}
        self._log = structlog.get_logger()
        self.up = True
        self.failures = 0
        self.others: tuple[str, ...] = ()
        self.caught_up = False
        self.history_s: float | None = None

    async def watch(self) -> None:
        """Tell and hear, for ever."""
        while True:
            await self.exchange()
            await anyio.sleep(self._pause_s)

    async def exchange(self) -> None:
        """Once: say what is under way, write what waits, read what others wrote."""
        try:
            presences = await self._meet()
            self._hear(presences)
            await self._write()
            while await self._read_on():
                await anyio.lowlevel.checkpoint()
            await self._trim()
        except (RedisError, OSError) as error:
            self._failed(error)
            return
        if not self.up:
            self._log.info("shared_views_back", others=len(self.others))
        self.up = True

    def told(self) -> dict[str, Any]:
        """For `/readyz`."""
        inbox = self._inbox
        return {
            "others": len(self.others),
            "up": self.up,
            "failures": self.failures,
            "caught_up": self.caught_up,
            "history_s": self.history_s,
            "applied": inbox.applied if inbox else 0,
            "missed": inbox.missed if inbox else 0,
            "unplaced": inbox.unplaced if inbox else 0,
            "untold": self._outbox.untold,
        }

    def levels(self) -> dict[str, float | None]:
        """For the metrics."""
        inbox = self._inbox
        return {
            "gateways": 1 + len(self.others) if self.up else None,
            "shared_views_up": float(self.up),
            "shared_views_failures": self.failures,
            "shared_views_applied": inbox.applied if inbox else 0,
            "shared_views_missed": inbox.missed if inbox else 0,
            "shared_views_untold": self._outbox.untold,
        }

    def reasons(self) -> Iterator[str]:
        """What is degraded, in sentences."""
        if not self.up:
            yield (
                "other gateways aren't heard, since Redis at FOREWORD_GATEWAY__REDIS_URL doesn't "
                "answer: requests are routed by what this gateway sent itself and by the engines' "
                f"own events ({self.failures} failures, {self._outbox.untold} notes not told)"
            )

    async def close(self) -> None:
        """Hang up."""
        with anyio.move_on_after(_TIMEOUT_S):
            await self._redis.aclose()

    @property
    def _pause_s(self) -> float:
        if not self.up:
            return _AGAIN_S
        return _BUSY_S if any(r.meter.is_busy for r in self._fleet.replicas) else _IDLE_S

    async def _meet(self) -> list[Presence]:
        needs = [replica for replica in self._fleet.replicas if self._needs(replica)]
        loads = {
            replica.client.url: Load(replica.meter.in_flight, replica.meter.unanswered_tokens)
            for replica in self._fleet.replicas
            if replica.meter.in_flight
        }
        ours = Presence(self._outbox.gateway, loads, [replica.client.url for replica in needs])
        told: list[bytes] = await self._exchange(
            keys=[self._gateways], args=[self._outbox.gateway, self._seal.close(ours), _LIFETIME_S]
        )
        opened = (self._seal.open_presence(each) for each in told)
        return [each for each in opened if each is not None]

    def _hear(self, presences: list[Presence]) -> None:
        now = time.monotonic()
        self.others = tuple(each.gateway for each in presences)
        needed = {url for each in presences for url in each.needs}
        names = set()
        for replica in self._fleet.replicas:
            url = replica.client.url
            loads = [each.loads[url] for each in presences if url in each.loads]
            replica.meter.heard_of_others(
                in_flight=sum(load.in_flight for load in loads),
                unanswered_tokens=sum(load.unanswered_tokens for load in loads),
                at=now,
            )
            if url in needed or self._needs(replica):
                names.add(replica.name)
        self._outbox.needed = frozenset(names)
        if self._inbox is not None:
            self._inbox.only(frozenset(self.others))

    async def _write(self) -> None:
        books = self._shelf.current
        if books is not self._books:
            await self._open(books)
        if books is None:
            return
        replicas = {
            replica.name: ToldReplica(replica.client.url, replica.start)
            for replica in self._fleet.replicas
        }
        for batch in self._outbox.pack(replicas):
            sealed = self._seal.close(batch)
            self._mean_bytes += (len(sealed) - self._mean_bytes) / 16
            kept = int(min(_MOST_KEPT, max(_FEWEST_KEPT, _KEPT_BYTES / self._mean_bytes)))
            try:
                await self._redis.xadd(self._stream, {b"b": sealed}, maxlen=kept, approximate=True)
            except (RedisError, OSError):
                self._outbox.untold += len(batch.notes)
                raise

    async def _open(self, books: Books | None) -> None:
        """Begin with what is kept of another model, or of the first."""
        self._inbox, self.caught_up, self.history_s = None, False, None
        if books is not None:
            channel = self._seal.channel("notes", *map(str, books.of))
            self._stream, self._read = f"foreword:views:notes:{channel}", b"-"
            self._joined_ms = await self._now_ms()
            self._inbox = Inbox(books.index, self._here)
        self._books = books

    async def _read_on(self) -> bool:
        """Whether there may be more."""
        if self._inbox is None:
            return False
        # One stream from one place on: XRANGE answers alike in all of Redis's protocols.
        entries = cast(
            "list[tuple[bytes, dict[bytes, bytes]]]",
            await self._redis.xrange(self._stream, min=self._read, count=_READ_AT_ONCE),
        )
        if entries:
            now_ms, now = await self._now_ms(), time.monotonic()
            for entry, fields in entries:
                self._read = b"(" + entry
                written_ms = int(entry.partition(b"-")[0])
                if self.history_s is None:
                    self.history_s = max(0.0, (self._joined_ms - written_ms) / 1000)
                self._take(fields.get(b"b", b""), written_ms, now - (now_ms - written_ms) / 1000)
        self.caught_up = self.caught_up or len(entries) < _READ_AT_ONCE
        return len(entries) == _READ_AT_ONCE

    def _take(self, sealed: bytes, written_ms: int, at: float) -> None:
        batch = self._seal.open_batch(sealed)
        if batch is None or batch.gateway == self._outbox.gateway:
            return
        assert self._inbox is not None
        self._inbox.take(batch, at=at, is_history=written_ms < self._joined_ms)

    async def _trim(self) -> None:
        """Digests of prompts aren't kept for longer than they are of use."""
        if self._books is None or time.monotonic() - self._trimmed_at < _TRIM_S:
            return
        oldest = await self._now_ms() - _KEPT_S * 1000
        await self._redis.xtrim(self._stream, minid=oldest, approximate=False)
        await self._redis.expire(self._stream, 2 * _KEPT_S)
        self._trimmed_at = time.monotonic()

    async def _now_ms(self) -> int:
        seconds, microseconds = await self._redis.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def _here(self) -> dict[str, Here]:
        return {
            replica.client.url: Here(
                name=replica.name, start=replica.start, needed=self._needs(replica)
            )
            for replica in self._fleet.replicas
        }

    def _needs(self, replica: Replica) -> bool:
        """Whether its events don't tell what it holds, or didn't lately."""
        status, now = replica.events.status, time.monotonic()
        gaps, since = self._lost.get(replica.name, (0, -_LOST_S))
        if status.unfilled_gaps > gaps:
            since = now
        self._lost[replica.name] = status.unfilled_gaps, since
        return replica.address is None or status.problem is not None or now - since < _LOST_S

    def _failed(self, error: Exception) -> None:
        """This gateway for itself, until an exchange succeeds."""
        if self.up:
            self._log.warning("shared_views_lost", problem=type(error).__name__)
            self.failures += 1
        self.up = False
        self.others = ()
        self._hear([])
        self._outbox.forget()
