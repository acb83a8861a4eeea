"""A started stack: where its parts answer, and control over them."""

import os

from app.stack.errors import StackError
from app.stack.parts import StackParts
from app.stack.ports import LOOPBACK
from app.stack.stack_file import ProcessFacts, StackFacts
from app.stack.supervisor import Supervisor


class RunningStack:
    """What a caller of ``start_stack`` holds. Its properties are true at the moment of asking."""

    def __init__(self, parts: StackParts, supervisor: Supervisor) -> None:
        self._parts = parts
        self._supervisor = supervisor
        self.home = parts.home
        self.model = parts.model
        self.environment = parts.environment

    @property
    def url(self) -> str | None:
        """The gateway."""
        return self._parts.gateway_url if self._has("gateway") else None

    @property
    def engine_url(self) -> str:
        """The first engine."""
        return self._parts.engine_urls[0]

    @property
    def engine_urls(self) -> tuple[str, ...]:
        """All engines: engine-0, engine-1, …"""
        return self._parts.engine_urls

    @property
    def kv_events(self) -> str | None:
        """ZMQ address of the only engine's KV events."""
        return self._parts.kv_events

    @property
    def tier_url(self) -> str | None:
        """LMCache's HTTP side."""
        return self._parts.tier_url if self._has("tier") else None

    @property
    def redis_url(self) -> str | None:
        return f"redis://{LOOPBACK}:{self._parts.ports.redis}/0" if self._has("redis") else None

    @property
    def pids(self) -> dict[str, int]:
        """Running processes by name: redis, tier, engine-0, engine-1, …, gateway."""
        keepers = self._supervisor.keepers
        return {name: pid for name, keeper in keepers.items() if (pid := keeper.pid) is not None}

    @property
    def leash_pids(self) -> dict[str, int]:
        keepers = self._supervisor.keepers
        return {
            name: pid for name, keeper in keepers.items() if (pid := keeper.leash_pid) is not None
        }

    def restarts(self, name: str) -> int:
        return self._supervisor.keepers[name].restarts

    def stop_service(self, name: str) -> None:
        """Stops one service in order, and leaves it stopped."""
        self._supervisor.keepers[name].stop()

    def start_service(self, name: str) -> None:
        """Starts a service again at its old address, and waits until it is ready.

        For one that was stopped, or that ended and is not restarted.

        Raises:
            ProcessStartError: it ended or stayed unready.
        """
        keeper = self._supervisor.keepers[name]
        keeper.stop()
        keeper.start()

    def wait_for_failure(self, timeout_s: float | None = None) -> StackError | None:
        """The error of a service that was given up, or None after the time."""
        return self._supervisor.wait_for_failure(timeout_s)

    def _has(self, name: str) -> bool:
        return name in self._supervisor.keepers


def describe(parts: StackParts, supervisor: Supervisor, *, started: str, ready: bool) -> StackFacts:
    """What ``stack.json`` says at this moment."""
    stack = RunningStack(parts, supervisor)
    has_tier = stack.tier_url is not None
    return StackFacts(
        pid=os.getpid(),
        started=started,
        ready=ready,
        home=str(parts.home.root),
        url=stack.url,
        engine_url=stack.engine_url,
        engine_urls=stack.engine_urls,
        kv_events=stack.kv_events,
        tier_url=stack.tier_url,
        tier_address=f"{LOOPBACK}:{parts.ports.tier}" if has_tier else None,
        redis_url=stack.redis_url,
        model=None if parts.model is None else parts.model.name,
        model_path=None if parts.model is None else parts.model.path,
        environment=None if parts.environment is None else str(parts.environment.path),
        processes={
            name: ProcessFacts(
                pid=keeper.pid,
                leash_pid=keeper.leash_pid,
                state=keeper.state.value,
                restarts=keeper.restarts,
                log=str(keeper.service.log),
            )
            for name, keeper in supervisor.keepers.items()
        },
    )
