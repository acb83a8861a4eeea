"""Asking an engine for KV events that it sent before.

A request is `[empty, first sequence number]`, an answer `[empty, topic, sequence number, batch]`,
and the last one has number -1.

Source: sglang 0.5.23 srt/disaggregation/kv_events.py (ZmqEventPublisher._service_replay).
"""

from collections.abc import AsyncGenerator

import anyio
import zmq
import zmq.asyncio

_SILENCE_S = 1.0
_END = -1
_QUEUE_MESSAGES = 20_000  # twice what an engine keeps by default


async def replayed(
    context: zmq.asyncio.Context, endpoint: str, *, first: int
) -> AsyncGenerator[tuple[int, bytes]]:
    """The batches from number `first` on that the engine still has, in order.

    Raises:
        TimeoutError: the engine is silent.
    """
    with context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVHWM, _QUEUE_MESSAGES)
        socket.connect(endpoint)
        await socket.send_multipart((b"", first.to_bytes(8, "big")))
        while True:
            with anyio.fail_after(_SILENCE_S):
                _, _, number, batch = await socket.recv_multipart()
            sequence = int.from_bytes(number, "big", signed=True)
            if sequence == _END:
                return
            yield sequence, batch
