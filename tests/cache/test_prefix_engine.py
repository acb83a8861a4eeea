"""By the real engine's events, the index knows what the engine will re-use from its GPU memory."""

import random
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import zmq

from cache.kv_events import (
    AllBlocksCleared,
    Arrival,
    BlockRemoved,
    BlockStored,
    EventSequence,
    decode_batch,
)
from cache.prefix_index import PrefixIndex
from tests.cache.prefix_tree_checks import check_tree
from tests.conftest import RealEngine
from tests.contracts.client import Client, wait_until
from tests.engines import compute_anything

pytestmark = pytest.mark.engine

_QUIET_MS = 300
_REQUESTS = 40


@pytest.fixture
def client(engine: RealEngine) -> Iterator[Client]:
    client = Client(engine)
    with client.http:
        yield client


@pytest.fixture
def events(client: Client) -> Iterator["zmq.Socket[bytes]"]:
    described = client.get("/server_info")["kv_events"]
    host = urlsplit(client.engine.url).hostname
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SUBSCRIBE, described["topic"].encode())
        socket.connect(f"tcp://{host}:{described['endpoint_port_base']}")
        wait_until(lambda: delivers(socket, client))
        while socket.poll(_QUIET_MS):
            socket.recv_multipart()
        yield socket


def delivers(events: "zmq.Socket[bytes]", client: Client) -> bool:
    """Whether what is computed now is told: a subscription takes a moment to get through."""
    compute_anything(client)
    return bool(events.poll(_QUIET_MS))


def test_re_use_is_foretold_through_evictions(client: Client, events: "zmq.Socket[bytes]") -> None:
    chance = random.Random(3)
    index, sequence = PrefixIndex(page_tokens=client.page_size), EventSequence()
    salts = [client.engine.salt(), client.engine.salt()]
    pool = int(client.get("/v1/loads")["loads"][0]["max_total_num_tokens"])
    length = min(client.window - 64, pool // 3)
    openings = [client.ids(length // 2, seed=seed) for seed in (1, 2, 3)]
    client.flush()
    hear(index, sequence, events)
    foretold, seen = [], []
    for number in range(_REQUESTS):
        salt, opening = chance.choice(salts), chance.choice(openings)
        ids = opening[: chance.randrange(20, len(opening))]
        if chance.random() < 0.5:
            ids = ids + client.ids(chance.randrange(1, length // 2), seed=100 + number)
        keys = index.keys(ids)
        index.sent(keys, salt=salt, replica="engine", at=time.monotonic())
        resident = (
            index.match(keys, salt=salt, sent_at=time.monotonic()).replicas["engine"].resident
        )
        assert resident is not None
        foretold.append(min(resident * client.page_size, client.page_floor(len(ids) - 1)))
        seen.append(client.cached(ids, cache_salt=salt))
        index.computed(keys, salt=salt, replica="engine", at=time.monotonic())
        hear(index, sequence, events)
        if number == _REQUESTS // 2:
            client.flush()
            hear(index, sequence, events)
    assert seen == foretold
    assert sum(seen) > 0
    check_tree(index._tree)


def hear(index: PrefixIndex, sequence: EventSequence, events: "zmq.Socket[bytes]") -> None:
    """Applies events until none has come for a while."""
    while events.poll(_QUIET_MS):
        _, number, payload = events.recv_multipart()
        batch = decode_batch(payload)
        arrived = sequence.accept(int.from_bytes(number, "big"), batch.ts)
        assert arrived.kind is Arrival.NEXT or arrived.first == 0
        for event in batch.events:
            match event:
                case BlockStored():
                    index.stored("engine", event, at=time.monotonic())
                case BlockRemoved():
                    index.removed("engine", event, at=time.monotonic())
                case AllBlocksCleared():
                    index.cleared("engine", at=time.monotonic())
                case _:
                    pytest.fail(event.reason)
