"""Redis behind LMCache's `resp` adapter, in place of LMCache's own client.

Stands in for `lmcache.lmcache_redis.LMCacheRedisClient` (a binary; used by
lmcache/v1/distributed/l2_adapters/resp_l2_adapter.py:140, 0.5.6), which was seen

- to wait for ever on a key that Redis evicted between EXISTS and GET, with the whole load;
- to take each answer for the next key's after one value of an unexpected length;
- never to connect again after Redis was restarted.

Here each worker thread has a connection; whatever breaks one fails the keys that were not
answered yet, and the next batch gets a new connection.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from foreword_guard import resp
from foreword_guard.resp import (
    RedisAddress,
    RespConnection,
    RespError,
    RespRefusedError,
    RespTimeoutError,
)

_CONNECT_S = 1.0
_WAIT_S = 5.0
# After a failed connection, batches fail at once for so long.
_PAUSE_S = 1.0

Completion = tuple[int, bool, str, list[bool] | None]


@dataclass(frozen=True, slots=True)
class _Batch:
    future: int
    operation: Callable[..., None]
    keys: Sequence[str]
    arguments: tuple[Any, ...]


class _Link:
    """One worker's connection, made when it is needed and dropped when it breaks."""

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._connection: RespConnection | None = None
        self._not_before_s = 0.0

    def run(self, batch: _Batch, done: list[bool]) -> None:
        """Run a batch; once more if a connection from before broke without a word.

        That is what a restart of Redis looks like, and every operation may be repeated.

        Raises:
            RespError: it failed; `done` has what was answered before.
        """
        reused = self._connection is not None
        try:
            self._attempt(batch, done)
        except RespError as exc:
            if not reused or done or isinstance(exc, RespTimeoutError):
                raise
            self._attempt(batch, done)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _attempt(self, batch: _Batch, done: list[bool]) -> None:
        connection = self._connect()
        try:
            batch.operation(connection, batch.keys, *batch.arguments, done)
        except RespError:
            self.close()
            raise

    def _connect(self) -> RespConnection:
        if self._connection is None:
            if time.monotonic() < self._not_before_s:
                raise RespError("Redis was not reachable a moment ago")
            self._not_before_s = time.monotonic() + _PAUSE_S
            self._connection = RespConnection(self._address, connect_s=_CONNECT_S, wait_s=_WAIT_S)
            self._not_before_s = 0.0
        return self._connection


class RedisStore:
    """LMCache's native connector interface over `resp`.

    Source: lmcache/v1/distributed/l2_adapters/native_connector_l2_adapter.py:137 (0.5.6).

    `on_failure` is told "store" or "read" and why, from the workers' threads, before the batch is
    reported: LMCache itself can't tell a Redis that is gone from one that lacks a key.
    """

    def __init__(
        self, host: str, port: int, num_workers: int, username: str = "", password: str = ""
    ) -> None:
        self._address = RedisAddress(host=host, port=port, username=username, password=password)
        self.on_failure: Callable[[str, str], None] | None = None
        self._event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._completions: list[Completion] = []
        self._last_future = 0
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._workers = [
            threading.Thread(target=self._work, name=f"foreword-redis-{i}", daemon=True)
            for i in range(num_workers)
        ]
        for worker in self._workers:
            worker.start()

    def event_fd(self) -> int:
        """Readable while there are completions."""
        return self._event_fd

    def submit_batch_get(self, keys: list[str], buffers: list[memoryview]) -> int:
        return self._submit(resp.get_into, keys, [_bytes_of(buffer) for buffer in buffers])

    def submit_batch_set(self, keys: list[str], values: list[memoryview]) -> int:
        return self._submit(resp.put, keys, [_bytes_of(value) for value in values])

    def submit_batch_exists(self, keys: list[str]) -> int:
        return self._submit(resp.exists, keys)

    def submit_batch_delete(self, keys: list[str]) -> int:
        return self._submit(resp.delete, keys)

    def drain_completions(self) -> list[Completion]:
        """(future, every key done, error, which keys) of each batch that is over."""
        with self._lock:
            drained, self._completions = self._completions, []
            if drained:
                os.eventfd_read(self._event_fd)
        return drained

    def close(self) -> None:
        """Let the workers end and give the descriptor back; batches not begun are dropped."""
        for _ in self._workers:
            self._batches.put(None)
        for worker in self._workers:
            worker.join(_CONNECT_S + _WAIT_S)
        os.close(self._event_fd)

    def _submit(self, operation: Any, keys: list[str], *arguments: Any) -> int:
        with self._lock:
            self._last_future += 1
            future = self._last_future
        self._batches.put(_Batch(future, operation, list(keys), arguments))
        return future

    def _work(self) -> None:
        link = _Link(self._address)
        while (batch := self._batches.get()) is not None:
            done: list[bool] = []
            try:
                link.run(batch, done)
            except (RespError, RespRefusedError) as exc:
                self._tell(batch, str(exc))
                self._complete(batch, done, str(exc))
            else:
                self._complete(batch, done, "")
        link.close()

    def _tell(self, batch: _Batch, problem: str) -> None:
        if self.on_failure is not None:
            self.on_failure("store" if batch.operation is resp.put else "read", problem)

    def _complete(self, batch: _Batch, done: list[bool], error: str) -> None:
        """Keys without an answer count as failed."""
        results = done + [False] * (len(batch.keys) - len(done))
        # A store is one success or failure; for the others the keys tell.
        ok = all(results) if batch.operation is resp.put else not error
        with self._lock:
            self._completions.append((batch.future, ok, error, results))
            os.eventfd_write(self._event_fd, 1)


def _bytes_of(buffer: Any) -> memoryview:
    return memoryview(buffer).cast("B")
