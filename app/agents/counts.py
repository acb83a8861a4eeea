"""What runs of agents count for Prometheus."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from app.series import OTHER, Counts, Distinct, Histogram

if TYPE_CHECKING:
    from app.agents.records import RunRecord

CountsMaker = Callable[[str, str, tuple[str, ...]], Counts]
HistogramMaker = Callable[[str, str, tuple[str, ...]], Histogram]

_MAX_AGENTS = 100
_MAX_TOOLS = 200


class CallOutcome(StrEnum):
    """What became of a call."""

    OK = "ok"
    ERROR = "error"
    """The model was shown an error."""
    REFUSED = "refused"
    """Not made: a budget is used up, or the answer was cut off in it."""
    NO_SUCH_TOOL = "no_such_tool"
    INTERRUPTED = "interrupted"
    """Somebody has to decide: nobody knows whether it was made, or its sub-agent waits."""
    STOPPED = "stopped"
    """Given up: the run was cancelled, or isn't this gateway's any more."""


class AgentCounts:
    """The counters. Each gateway counts what it does: a run that two work on, its end once."""

    def __init__(self, counts: CountsMaker, histogram: HistogramMaker) -> None:
        self._agents = Distinct(_MAX_AGENTS)
        self._tools = Distinct(_MAX_TOOLS)
        self._runs = counts(
            "agent_runs",
            "Runs of agents that ended, or wait for somebody, by how",
            ("agent", "outcome"),
        )
        self._steps = counts("agent_steps", "Answers of the model within runs", ("agent",))
        self._run_s = histogram("agent_run_seconds", "Work of runs that ended", ("agent",))
        self._calls = counts(
            "tool_calls", "Calls of agents' tools, by what became of them", ("tool", "outcome")
        )
        self._call_s = histogram("tool_seconds", "Calls of agents' tools that were made", ("tool",))

    def stepped(self, agent: str) -> None:
        """A step was written down."""
        self._steps.values[self._agents.label(agent),] += 1

    def waits(self, agent: str) -> None:
        """A run waits for somebody to decide; its end is counted for itself."""
        self._runs.values[self._agents.label(agent), "interrupted"] += 1

    def ended(self, agent: str, outcome: str, seconds: float) -> None:
        """A run is over, after so much work."""
        label = self._agents.label(agent)
        self._runs.values[label, outcome] += 1
        self._run_s.of((label,)).observe(seconds)

    def stopped(self, runs: Iterable["RunRecord"]) -> None:
        """Runs that didn't end themselves: their parents have, or nobody goes on with them."""
        for run in runs:
            self.ended(run.agent, run.status.value, run.seconds)

    def not_made(self, tool: str | None, outcome: CallOutcome) -> None:
        """A call wasn't made; `tool` is None where the model made the name up."""
        label = OTHER if tool is None else self._tools.label(tool)
        self._calls.values[label, outcome.value] += 1

    def called(self, tool: str, outcome: CallOutcome, seconds: float) -> None:
        """A call was begun, and came to this after so long."""
        label = self._tools.label(tool)
        self._calls.values[label, outcome.value] += 1
        self._call_s.of((label,)).observe(seconds)
