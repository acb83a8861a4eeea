"""The Redis client behind the tier, against a real Redis that misbehaves."""

import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from foreword_guard.redis_store import Completion, RedisStore
from tests.deploy.guard.real import Process, eventually, free_port

pytestmark = pytest.mark.slow

SIZE = 20_000
KEYS = [f"chunk{i}" for i in range(8)]


class Server:
    """A Redis that can be killed, stopped and started again."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self.process = Process(log)

    def start(self) -> None:
        self.process.spawn(["redis-server", "--port", str(self.port), "--save", ""], {})
        assert eventually(self.answers, 60), self.process.log.read_text()

    def answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "redis.log")
    server.start()
    yield server
    server.process.kill()


@pytest.fixture
def direct(server: Server) -> Iterator[Any]:
    with redis.Redis(port=server.port) as client:
        yield client


@pytest.fixture
def store(server: Server) -> Iterator[RedisStore]:
    store = RedisStore("127.0.0.1", server.port, 2)
    yield store
    store.close()


def finished(store: RedisStore, future: int) -> Completion:
    """The completion of one batch; others are dropped."""
    poller = select.poll()
    poller.register(store.event_fd(), select.POLLIN)
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        poller.poll(200)
        for completion in store.drain_completions():
            if completion[0] == future:
                return completion
    pytest.fail(f"batch {future} never finished")


def put(store: RedisStore, keys: list[str]) -> Completion:
    values = [memoryview(key.encode().ljust(SIZE, b".")) for key in keys]
    return finished(store, store.submit_batch_set(keys, values))


def get(store: RedisStore, keys: list[str]) -> list[bool] | None:
    """Which keys were read; what was read is right."""
    buffers = [memoryview(bytearray(SIZE)) for _ in keys]
    done = finished(store, store.submit_batch_get(keys, buffers))[3]
    for key, buffer, read in zip(keys, buffers, done or [], strict=False):
        assert not read or bytes(buffer) == key.encode().ljust(SIZE, b".")
    return done


def test_values_come_back_and_keys_are_found_and_deleted(store: RedisStore) -> None:
    assert put(store, KEYS)[1]
    assert get(store, KEYS) == [True] * 8
    assert finished(store, store.submit_batch_delete(KEYS[:1]))[3] == [True]
    assert finished(store, store.submit_batch_exists(KEYS[:2]))[3] == [False, True]


def test_a_key_evicted_before_it_is_read_fails_alone(store: RedisStore, direct: Any) -> None:
    put(store, KEYS)
    direct.delete(KEYS[2])

    assert get(store, KEYS) == [True, True, False, True, True, True, True, True]


@pytest.mark.parametrize("size", [0, 1000, SIZE + 500])
def test_a_value_of_another_length_fails_alone_and_is_deleted(
    store: RedisStore, direct: Any, size: int
) -> None:
    put(store, KEYS)
    direct.set(KEYS[2], b"x" * size)

    assert get(store, KEYS) == [True, True, False, True, True, True, True, True]
    assert eventually(lambda: not direct.exists(KEYS[2]), 60)
    assert get(store, KEYS[3:]) == [True] * 5


def test_a_key_of_another_type_does_not_mix_up_the_others(store: RedisStore, direct: Any) -> None:
    put(store, KEYS)
    direct.delete(KEYS[2])
    direct.rpush(KEYS[2], "x")

    assert get(store, KEYS) == [True, True] + [False] * 6
    assert get(store, KEYS[3:]) == [True] * 5


def test_a_restarted_redis_is_used_again(store: RedisStore, server: Server) -> None:
    put(store, KEYS)
    server.process.kill()
    assert not put(store, KEYS)[1]
    assert get(store, KEYS) == [False] * 8
    server.start()

    assert eventually(lambda: put(store, KEYS)[1], 60)
    assert eventually(lambda: get(store, KEYS) == [True] * 8, 60)


def test_a_restart_between_two_batches_is_not_noticed(store: RedisStore, server: Server) -> None:
    for _ in range(4):
        put(store, KEYS)
    server.process.kill()
    server.start()

    assert all(put(store, KEYS)[1] for _ in range(4))


def test_a_silent_redis_holds_nothing_up_for_ever(store: RedisStore, server: Server) -> None:
    put(store, KEYS)
    server.process.signal(signal.SIGSTOP)
    try:
        assert get(store, KEYS) == [False] * 8
    finally:
        server.process.signal(signal.SIGCONT)

    assert eventually(lambda: get(store, KEYS) == [True] * 8, 60)


def test_a_password_is_used(store: RedisStore, server: Server, direct: Any) -> None:
    direct.config_set("requirepass", "secret")
    knowing = RedisStore("127.0.0.1", server.port, 1, "default", "secret")
    wrong = RedisStore("127.0.0.1", server.port, 1, "default", "guess")

    assert put(knowing, KEYS)[1]
    assert not put(wrong, KEYS)[1]
    knowing.close()
    wrong.close()
