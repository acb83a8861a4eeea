"""The agents of this deployment, and their runs as everybody may see and change them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from app.agents.errors import CallNotWaitingError, RunEndedError, RunNotFoundError
from app.agents.loop import Call, CallState, RunStatus
from app.agents.records import RunRecord, StepRecord
from app.agents.store import RunStore
from app.agents.toolbox import NoServers, OpensTools
from app.agents.unfinished import unfinished_response
from prompts.agent_library import AgentLibrary

if TYPE_CHECKING:
    from app.agents.run import AgentRun

_SKIPPED = "the call was interrupted, and it isn't known whether it was made; somebody decided to "
_SKIPPED += "go on without its result"


def _may_be_seen(run: RunRecord) -> bool:
    """A response that ended well isn't seen here: where it isn't stored, nobody wanted it to be."""
    return run.status not in (RunStatus.COMPLETED, RunStatus.INCOMPLETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCall:
    """A call that somebody has to decide about, with the run that it belongs to."""

    run: RunRecord
    step: int
    call: Call


@dataclass(slots=True, kw_only=True)
class Agents:
    """One event loop owns `live`: the runs that this gateway works on, sub-agents' among them.

    `changed` is called when there may be something to pick up, or to keep alive. The methods block.
    """

    library: AgentLibrary
    store: RunStore
    servers: OpensTools = field(default_factory=NoServers)
    live: "dict[str, AgentRun]" = field(default_factory=dict)
    changed: Callable[[], None] = lambda: None

    def works_on(self, run: "AgentRun") -> None:
        """From now on; whoever keeps runs alive may have rested. In the event loop."""
        self.live[run.record.id] = run
        if len(self.live) == 1:
            self.changed()

    def run(self, run_id: str, *, tenant: str) -> RunRecord:
        """Raises RunNotFoundError."""
        found = self.store.find(run_id, tenant=tenant)
        if found is None:
            raise RunNotFoundError(run_id)
        return found

    def cancel(self, run_id: str, *, tenant: str) -> RunRecord:
        """Note that a run is to end. Whoever works on it sees to it; else the watch does.

        Raises:
            RunNotFoundError, RunEndedError
        """
        found = self.run(run_id, tenant=tenant)
        if found.parent is not None:
            return self.cancel(found.parent.run_id, tenant=tenant)
        if found.status.is_end:
            raise RunEndedError(run_id, found.status)
        return self.store.cancel(run_id, tenant=tenant) or found

    def stop(self, run_id: str) -> None:
        """What is done here for a cancelled run ends now. In the event loop."""
        for each in list(self.live.values()):
            if run_id in (each.record.id, each.root_id):
                each.cancel()

    def retry(self, run_id: str, call_id: str, *, tenant: str) -> None:
        """Make a call again that was interrupted.

        Raises:
            RunNotFoundError, CallNotWaitingError
        """
        self._decide(run_id, call_id, tenant, lambda call: replace(call, state=CallState.WAITING))

    def skip(self, run_id: str, call_id: str, *, tenant: str, output: str | None) -> None:
        """Go on with a result that somebody gives, or without one.

        Raises:
            RunNotFoundError, CallNotWaitingError
        """
        text = _SKIPPED if output is None else output
        self._decide(run_id, call_id, tenant, lambda call: call.done(text, is_error=output is None))

    def waiting(self, run: RunRecord) -> Iterator[WaitingCall]:
        """Of a run and its sub-agents'."""
        for step in self.store.steps(run.id):
            for call in step.step.calls:
                if call.state is CallState.INTERRUPTED:
                    yield WaitingCall(run=run, step=step.number, call=call)
        for child in self.store.children(run.id):
            yield from self.waiting(child)

    def unfinished(self, run_id: str, *, tenant: str) -> dict[str, Any] | None:
        """The response of a run as it stands that isn't stored; None: there is no such run."""
        run = self.store.find(run_id, tenant=tenant)
        if run is None or run.parent is not None or not _may_be_seen(run):
            return None
        return unfinished_response(run, self.store.steps(run_id))

    def steps(self, run_id: str) -> list[StepRecord]:
        """What a run did so far."""
        return self.store.steps(run_id)

    def _decide(
        self, run_id: str, call_id: str, tenant: str, decided: Callable[[Call], Call]
    ) -> None:
        run = self.run(run_id, tenant=tenant)
        for each in self.waiting(run):
            if each.call.call_id == call_id and not run.status.is_end:
                line = self._line(each.run)
                self.store.decide(each.run.id, line, each.step, decided(each.call))
                return
        raise CallNotWaitingError(run_id, call_id)

    def _line(self, run: RunRecord) -> list[str]:
        """A run and those that it works for, up to the first."""
        ids = [run.id]
        while run.parent is not None:
            above = self.store.find(run.parent.run_id)
            if above is None:
                break
            run = above
            ids.append(run.id)
        return ids
