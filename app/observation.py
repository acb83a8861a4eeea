"""What is seen of the request that is being answered, for its trace and its line in the log.

`Observer` (app/observer.py) begins one for each HTTP request; whoever works on the request finds it
without being handed it. Where none was begun, or the request isn't traced, every function here does
nothing at the cost of a look-up.
"""

import time
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol

import msgspec

from app.upstream import Headers
from cache.rows import LedgerRow


class Stage(Protocol):
    """A part of a request's way, while it lasts."""

    def set(self, name: str, value: str | int | float | bool) -> None:
        """Add a fact; never text of a prompt or an answer."""
        ...

    def __enter__(self) -> "Stage": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...


class RequestTrace(Protocol):
    """The trace of one request."""

    trace_id: str

    def stage(self, name: str) -> Stage:
        """A part of the request's way, from entering to leaving it."""
        ...

    def engine_headers(self) -> Headers:
        """The request goes to an engine now: what makes the engine's spans children of ours."""
        ...

    def finished(self, row: LedgerRow) -> None:
        """The request has ended so."""
        ...

    def end(self, *, route: str, status: str) -> None:
        """The HTTP request has ended; `status` 499 is a client that left."""
        ...


class _Untraced:
    """A stage of a request without a trace."""

    __slots__ = ()

    def set(self, name: str, value: str | int | float | bool) -> None:
        return

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *raised: object) -> None:
        return


UNTRACED = _Untraced()


class Observation(msgspec.Struct, eq=False):
    """One HTTP request."""

    started: float = msgspec.field(default_factory=time.perf_counter)
    request_id: str | None = None
    trace: RequestTrace | None = None
    row: LedgerRow | None = None
    error_code: str | None = None


OBSERVED: ContextVar[Observation | None] = ContextVar("foreword_observation", default=None)
"""The request that the functions below are about; `Observer` sets it."""


def stage(name: str) -> Stage:
    """A part of the current request's way: `with stage("route") as seen: …`."""
    observation = OBSERVED.get()
    if observation is None or observation.trace is None:
        return UNTRACED
    return observation.trace.stage(name)


def trace_headers() -> Headers:
    """Headers for an engine that the current request is about to be sent to."""
    observation = OBSERVED.get()
    if observation is None or observation.trace is None:
        return ()
    return observation.trace.engine_headers()


def saw(row: LedgerRow) -> None:
    """What is known of the current model request, now that it has ended."""
    observation = OBSERVED.get()
    if observation is None:
        return
    observation.row = row
    if observation.trace is not None:
        observation.trace.finished(row)


def saw_error(code: str) -> None:
    """The current request is answered with an error."""
    observation = OBSERVED.get()
    if observation is not None:
        observation.error_code = code


def named(request_id: str) -> None:
    """The id that the current request's answer has."""
    observation = OBSERVED.get()
    if observation is not None:
        observation.request_id = request_id
