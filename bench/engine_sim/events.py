"""KV events on ZeroMQ, byte for byte as SGLang publishes them.

A PUB socket sends `[topic, sequence number (8 bytes, big endian), msgpack]`; a ROUTER socket
replays what is still buffered to whoever sends a first sequence number, and ends with number -1.

Source: sglang 0.5.23 disaggregation/kv_events.py (ZmqEventPublisher, BlockStored, …).
"""

import time
from collections import deque
from collections.abc import Sequence

import msgspec
import zmq
import zmq.asyncio

from bench.engine_sim.changes import Change, Cleared, Removed, Stored, block_hash
from bench.engine_sim.config import EventsConfig
from bench.errors import SimulatorStartError

_SUBSCRIBED = b"\1"
_END = (-1).to_bytes(8, "big", signed=True)
_MEDIUM = "GPU"


class BlockStored(msgspec.Struct, omit_defaults=True, tag=True, kw_only=True):
    """New pages, in order, after the page `parent_block_hash`."""

    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None = None
    cache_salt: str | None = None


class BlockRemoved(msgspec.Struct, omit_defaults=True, tag=True, kw_only=True):
    block_hashes: list[int]
    medium: str | None = None


class AllBlocksCleared(msgspec.Struct, omit_defaults=True, tag=True):
    pass


Event = BlockStored | BlockRemoved | AllBlocksCleared


class EventBatch(msgspec.Struct, array_like=True):
    ts: float
    events: list[Event]
    attn_dp_rank: int | None = None


def as_event(change: Change, *, page_size: int) -> Event:
    """A change of the tree in the engine's words."""
    match change:
        case Stored(namespace=namespace, parent=parent, digests=digests, token_ids=ids):
            return BlockStored(
                block_hashes=[block_hash(digest) for digest in digests],
                parent_block_hash=None if parent is None else block_hash(parent),
                token_ids=list(ids),
                block_size=page_size,
                lora_id=None,
                medium=_MEDIUM,
                cache_salt=namespace.salt,
            )
        case Removed(digests=digests):
            return BlockRemoved(block_hashes=[block_hash(d) for d in digests], medium=_MEDIUM)
        case Cleared():
            return AllBlocksCleared()


def encode_batch(changes: Sequence[Change], *, page_size: int, at_s: float) -> bytes:
    """One batch in msgpack; `at_s` is the time of the day in seconds."""
    events = [as_event(change, page_size=page_size) for change in _merged(changes)]
    return msgspec.msgpack.encode(EventBatch(at_s, events, 0))


def _merged(changes: Sequence[Change]) -> list[Change]:
    """Neighbouring removals become one event, as the engine sends them."""
    merged: list[Change] = []
    for change in changes:
        if isinstance(change, Removed) and merged and isinstance(merged[-1], Removed):
            merged[-1] = Removed(change.namespace, merged[-1].digests + change.digests)
        else:
            merged.append(change)
    return merged


class EventPublisher:
    """The two sockets of one replica. All calls belong to one event loop."""

    def __init__(self, config: EventsConfig, *, page_size: int) -> None:
        """Raises SimulatorStartError: an endpoint can't be taken."""
        self.topic = config.topic
        self.lose_next = 0
        self._page_size = page_size
        self._sequence = 0
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=config.buffer_steps)
        self._context = zmq.asyncio.Context()
        # A plain socket: like a PUB socket it never blocks, so nothing has to be awaited. It also
        # hears who subscribes, of everybody and not only of the first.
        self._pub = zmq.Context(self._context).socket(zmq.XPUB)
        self._pub.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._subscriptions = 0
        self.endpoint = self._bind(self._pub, config.endpoint)
        self._router: zmq.asyncio.Socket | None = None
        self.replay_endpoint: str | None = None
        if config.replay_endpoint is not None:
            self._router = self._context.socket(zmq.ROUTER)
            self.replay_endpoint = self._bind(self._router, config.replay_endpoint)

    def publish(self, changes: Sequence[Change]) -> None:
        """Send one batch; while `lose_next` > 0 it is numbered and buffered, but never sent."""
        payload = encode_batch(changes, page_size=self._page_size, at_s=time.time())
        sequence, self._sequence = self._sequence, self._sequence + 1
        self._buffer.append((sequence, payload))
        if self.lose_next > 0:
            self.lose_next -= 1
            return
        self._pub.send_multipart((self.topic.encode(), sequence.to_bytes(8, "big"), payload))

    @property
    def published(self) -> int:
        """Batches so far, those included that were never sent."""
        return self._sequence

    def subscriptions(self) -> int:
        """How many have got through to here, less those that ended."""
        while self._pub.poll(0):
            self._subscriptions += 1 if self._pub.recv()[:1] == _SUBSCRIBED else -1
        return self._subscriptions

    async def serve_replay(self) -> None:
        """Answer replay requests until cancelled."""
        while self._router is not None:
            frames = await self._router.recv_multipart()
            if len(frames) != 3:
                continue
            await self._replay(self._router, frames[0], int.from_bytes(frames[2], "big"))

    def close(self) -> None:
        self._pub.close(linger=0)
        self._context.destroy(linger=0)

    async def _replay(self, router: zmq.asyncio.Socket, client: bytes, first: int) -> None:
        topic = self.topic.encode()
        for sequence, payload in list(self._buffer):
            if sequence >= first:
                number = sequence.to_bytes(8, "big")
                await router.send_multipart((client, b"", topic, number, payload))
        await router.send_multipart((client, b"", b"", _END, b""))

    def _bind(self, socket: zmq.Socket[bytes] | zmq.asyncio.Socket, endpoint: str) -> str:
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise SimulatorStartError(endpoint, str(error)) from error
        address = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return address.replace("0.0.0.0", "127.0.0.1")
