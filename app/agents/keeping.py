"""The end of a run that a client asked for: the response, and the turn of its conversation."""

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio
import sqlalchemy as sa

from app.agents.loop import RunStatus
from app.agents.records import RunRecord
from app.agents.rows import forget_ended
from app.stored.records import StoredResponse
from app.tables import conversations

if TYPE_CHECKING:
    from app.agents.run import AgentRun
    from app.responses.running import Asked

_KEPT = (RunStatus.COMPLETED, RunStatus.INCOMPLETE)


class Keeper:
    """Makes the end of a run durable."""

    async def end(
        self, run: "AgentRun", status: RunStatus, reason: str | None
    ) -> Sequence[RunRecord]:
        """Write it down, before anybody is told; the runs of sub-agents that end with it.

        Raises:
            RunLostError: the run is another's now.
        """
        end = partial(
            run.agents.store.end,
            run.record.id,
            status,
            reason=reason,
            seconds=run.seconds,
            response=run.writer.snapshot,
        )
        return await anyio.to_thread.run_sync(end)


class RootKeeper(Keeper):
    """Keeps what the run said where it was said, all in one transaction with its end.

    A run that failed or was cancelled counts as never said: its conversation is as it was.
    """

    def __init__(self, asked: "Asked") -> None:
        self._asked = asked

    async def end(
        self, run: "AgentRun", status: RunStatus, reason: str | None
    ) -> Sequence[RunRecord]:
        """See `Keeper`."""
        keeps = status in _KEPT
        end = partial(
            run.agents.store.end,
            run.record.id,
            status,
            reason=reason,
            seconds=run.seconds,
            response=run.writer.snapshot,
            also=partial(self._keep if keeps else self._leave, run),
        )
        return await anyio.to_thread.run_sync(end)

    def _keep(self, run: "AgentRun", connection: sa.Connection) -> None:
        body, history = self._asked.body, run.history
        if body.conversation_id is not None:
            run.services.stored.end_turn_in(
                connection,
                body.conversation_id,
                [*history.asked, *history.own],
                run.record.id,
                _tokens(run),
            )
        if body.is_stored:
            self._asked.write(
                connection,
                StoredResponse(
                    id=run.record.id,
                    tenant=run.record.tenant,
                    created_at=time.time(),
                    previous_id=body.previous_response_id,
                    conversation_id=body.conversation_id,
                    response=run.writer.snapshot,
                    input=[dict(each.item) for each in history.asked],
                ),
            )
        self._forget(run, connection)

    def _leave(self, run: "AgentRun", connection: sa.Connection) -> None:
        mine = (
            conversations.c.id == run.record.conversation_id,
            conversations.c.turn == run.record.id,
        )
        connection.execute(sa.update(conversations).where(*mine).values(turn=None, turn_until=None))
        self._forget(run, connection)

    def _forget(self, run: "AgentRun", connection: sa.Connection) -> None:
        """What isn't to be stored was only kept in case the gateway dies."""
        if not self._asked.body.is_stored:
            forget_ended(connection, run.record.id)


def _tokens(run: "AgentRun") -> int | None:
    """Of the last step's prompt and answer: as long is the conversation now."""
    report = run.steps[-1].report if run.steps else {}
    prompt, output = report.get("prompt_tokens"), report.get("output_tokens")
    return None if prompt is None or output is None else prompt + output
