"""What sub-agents say, passed on to whoever reads their parent's stream while their calls go on."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

import anyio

from app.accounts import JSONObject
from app.agents.loop import Call

if TYPE_CHECKING:
    from app.agents.calls import CallMaker
    from app.agents.run import AgentRun

SUB_AGENT_EVENT = "foreword.sub_agent.event"
"""Not one of OpenAI's: its SDKs give events that they don't know as they are."""

# A reader that is slower than its sub-agents holds them up.
_MOST_WAITING = 64


def said_by(child: "AgentRun", call: Call, event: JSONObject) -> JSONObject:
    """A sub-agent's event with whose it is; one of its own sub-agents' stays as it is."""
    if "event" in event:
        return event
    parent = child.record.parent
    return {
        "agent": child.agent.name,
        "run_id": child.record.id,
        "parent_id": None if parent is None else parent.run_id,
        "call_id": call.call_id,
        "event": event,
    }


async def told_while(maker: "CallMaker", calls: Sequence[Call]) -> AsyncGenerator[JSONObject]:
    """Has calls made, and gives what their sub-agents say until all are done.

    Raises:
        RunLostError: the run is another's now.
    """
    send, receive = anyio.create_memory_object_stream[JSONObject](_MOST_WAITING)

    async def make() -> None:
        try:
            await maker.make(calls, send.send)
        finally:
            send.close()

    # No task group: what is read from this generator may end in another task than it began in.
    task = asyncio.create_task(make())
    try:
        async for said in receive:
            yield said
        await task
    finally:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # raised above, or nobody is left to hear of it
        send.close()
        receive.close()
