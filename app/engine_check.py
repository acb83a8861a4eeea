"""How the engine was started, checked when the gateway meets it: once for each start."""

from collections.abc import Callable, Mapping

import structlog

from app.crosscheck import EngineCounters
from app.replica_view import ReplicaView
from cache.engine_config import check_engine
from prompts.lint.findings import Finding, Severity


class EngineCheck:
    """Remembers what was found, since the check reads all of the engine's settings."""

    def __init__(self, counters: EngineCounters, *, chunk_tokens: Callable[[], int | None]) -> None:
        self._counters = counters
        self._chunk_tokens = chunk_tokens
        self._checked: tuple[ReplicaView, bool | None, int | None, bool] | None = None
        self._has_tools = False
        self._findings: tuple[Finding, ...] = ()

    def sent(self, body: Mapping[str, object]) -> None:
        """A request goes to the engine: whether it may be answered with calls that are to be read.

        Where a call must come, it is of a form that any parser has read; without one the request
        isn't sent (`app.tool_lists`).
        """
        if not self._has_tools and body.get("tools"):
            self._has_tools = body.get("tool_choice") in (None, "auto")

    def findings(self, view: ReplicaView) -> tuple[Finding, ...]:
        """What is wrong with the engine's settings, worst first."""
        counters = self._counters
        guarded = counters.guard.tier_open is not None if counters.guard_known else None
        chunk_tokens = self._chunk_tokens()
        checked = (view, guarded, chunk_tokens, self._has_tools)
        if self._checked != checked:
            self._findings = check_engine(
                view.info.settings,
                guarded=guarded,
                chunk_tokens=chunk_tokens,
                has_tools=self._has_tools,
            )
            self._checked = checked
            self._log()
        return self._findings

    def _log(self) -> None:
        log = structlog.get_logger()
        for finding in self._findings:
            level = log.info if finding.severity is Severity.NOTE else log.warning
            level("engine_config", code=finding.code, problem=finding.message)
