"""What Foreword relies on in an engine's KV events, as tests that any engine must pass."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import msgspec
import pytest
import zmq

from bench.engine_sim.changes import block_hash, page_digests
from tests.contracts.client import Client, Contract, EngineUnderTest, Json, wait_until
from tests.engines import compute_anything

_END = (-1).to_bytes(8, "big", signed=True)


class Subscription:
    """One subscriber to an engine's events; it keeps all it ever got."""

    def __init__(self, socket: zmq.Socket[bytes], *, quiet_s: float) -> None:
        self._socket = socket
        self._quiet_s = quiet_s
        self.batches: dict[int, bytes] = {}
        self.topics: set[bytes] = set()

    def events(self) -> list[Json]:
        """All events so far; returns when none has come for a while."""
        while self._socket.poll(int(self._quiet_s * 1000)):
            topic, number, payload = self._socket.recv_multipart()
            self.topics.add(topic)
            self.batches[int.from_bytes(number, "big")] = payload
        return [
            event
            for number in sorted(self.batches)
            for event in msgspec.msgpack.decode(self.batches[number])[1]
        ]

    def stored(self, salt: str | None) -> list[Json]:
        return [
            event
            for event in self.events()
            if event["type"] == "BlockStored" and event.get("cache_salt") == salt
        ]


class KvEventsContract(Contract):
    """Subclass, and supply the fixture `engine`.

    After `quiet_s` seconds without an event no more is expected.
    """

    quiet_s = 0.7

    @pytest.fixture
    def described(self, client: Client) -> Json:
        """How to reach the sockets, as the engine tells it."""
        described: Json | None = client.get("/server_info")["kv_events"]
        assert described is not None, "start the engine with KV events on a wildcard address"
        return described

    @pytest.fixture
    def subscription(self, client: Client, described: Json) -> Iterator[Subscription]:
        with _socket(client, described["endpoint_port_base"], zmq.SUB) as socket:
            socket.setsockopt(zmq.SUBSCRIBE, described["topic"].encode())
            subscription = Subscription(socket, quiet_s=self.quiet_s)
            _wait_until_subscribed(client.engine, subscription)
            yield subscription

    def test_pages_of_prompt_and_answer_are_announced_in_a_chain(
        self, client: Client, described: Json, subscription: Subscription
    ) -> None:
        page = client.page_size
        prompt = client.ids(5 * page + 3)
        answer = client.chat(prompt, max_tokens=2 * page, return_output_ids_in_sglext=True)
        computed = (prompt + answer["sglext"]["output_ids"][0])[:-1]
        kept = computed[: client.page_floor(len(computed))]
        stored = subscription.stored(client.salt)
        assert [i for event in stored for i in event["token_ids"]] == kept
        digests = page_digests(kept, page, previous=None, salt=client.salt)
        hashes = [h for event in stored for h in event["block_hashes"]]
        assert hashes == [block_hash(digest) for digest in digests]
        assert stored[0]["parent_block_hash"] is None
        for before, after in itertools.pairwise(stored):
            assert after["parent_block_hash"] == before["block_hashes"][-1]
        assert {event["medium"] for event in stored} == {"GPU"}
        assert {event["block_size"] for event in stored} == {page} == {described["block_size"]}

    def test_a_hit_announces_nothing(self, client: Client, subscription: Subscription) -> None:
        prompt = client.ids(4 * client.page_size + 1)
        client.chat(prompt, max_tokens=1)
        before = subscription.events()
        client.chat(prompt, max_tokens=1)
        assert subscription.events() == before

    def test_a_branch_names_the_page_it_grows_from(
        self, client: Client, subscription: Subscription
    ) -> None:
        page = client.page_size
        prompt = client.ids(4 * page)
        client.chat(prompt, max_tokens=1)
        client.chat(prompt[: 2 * page] + client.ids(2 * page, seed=5), max_tokens=1)
        trunk, branch = subscription.stored(client.salt)
        assert branch["parent_block_hash"] == trunk["block_hashes"][1]
        assert len(branch["block_hashes"]) == 2

    def test_no_salt_and_an_extra_key_are_announced_without_salt(
        self, client: Client, subscription: Subscription
    ) -> None:
        prompt = client.ids(2 * client.page_size, seed=int(client.salt[:6], 16))
        client.chat(prompt, max_tokens=1, cache_salt=None, extra_key=client.salt)
        (event,) = subscription.stored(None)
        digests = page_digests(prompt, client.page_size, previous=None, salt=None)
        assert event["block_hashes"] == [block_hash(digest) for digest in digests]

    def test_a_flush_announces_that_everything_is_gone(
        self, client: Client, subscription: Subscription
    ) -> None:
        client.chat(client.ids(2 * client.page_size))
        client.flush()
        assert subscription.events()[-1] == {"type": "AllBlocksCleared"}

    def test_evicted_pages_are_announced(self, client: Client, subscription: Subscription) -> None:
        client.flush()
        prompts = client.enough_to_evict()
        for prompt in prompts:
            client.chat(prompt, max_tokens=1)
        events = subscription.events()
        removed = [e for e in events if e["type"] == "BlockRemoved"]
        assert removed
        assert {event["medium"] for event in removed} == {"GPU"}
        gone = {h for event in removed for h in event["block_hashes"]}
        kept = prompts[0][: client.page_floor(len(prompts[0]))]
        digests = page_digests(kept, client.page_size, previous=None, salt=client.salt)
        assert gone <= {block_hash(digest) for digest in digests}

    def test_batches_are_numbered_without_gaps_and_carry_the_topic(
        self, client: Client, described: Json, subscription: Subscription
    ) -> None:
        for seed in range(3):
            client.chat(client.ids(2 * client.page_size, seed=seed + 10))
        subscription.events()
        numbers = sorted(subscription.batches)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert subscription.topics == {described["topic"].encode()}

    def test_batches_can_be_replayed_from_a_number_on(
        self, client: Client, described: Json, subscription: Subscription
    ) -> None:
        for seed in range(3):
            client.chat(client.ids(2 * client.page_size, seed=seed + 20))
        subscription.events()
        assert "replay_endpoint_port_base" in described, "start the engine with a replay endpoint"
        first = sorted(subscription.batches)[1]
        replayed: dict[int, bytes] = {}
        with _socket(client, described["replay_endpoint_port_base"], zmq.DEALER) as socket:
            socket.send_multipart((b"", first.to_bytes(8, "big")))
            while socket.poll(3000):
                _, _, number, payload = socket.recv_multipart()
                if number == _END:
                    break
                replayed[int.from_bytes(number, "big")] = payload
        assert replayed == {n: p for n, p in subscription.batches.items() if n >= first}


def _wait_until_subscribed(engine: EngineUnderTest, subscription: Subscription) -> None:
    """Until nothing that is published from now on is missed; what shows it has its own salt."""
    stranger = Client(engine)

    def hears() -> bool:
        compute_anything(stranger)
        return bool(subscription.events())

    with stranger.http:
        wait_until(hears)


@contextmanager
def _socket(client: Client, port: int, kind: int) -> Iterator[zmq.Socket[bytes]]:
    host = urlsplit(client.engine.url).hostname
    with zmq.Context() as context, context.socket(kind) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(f"tcp://{host}:{port}")
        yield socket
