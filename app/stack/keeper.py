"""Keeps one process running: starts it, waits until it is ready, restarts it when it ends.

A keeper has one thread while its process runs. States:

    idle ─start─▶ starting ─ready─▶ ready ─ended─▶ waiting ─back-off─▶ starting …
                     └──────────────────────────────────────── too often ─▶ failed
    any ─stop─▶ stopped
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.stack import logs
from app.stack.backoff import RestartPolicy
from app.stack.errors import ProcessGaveUpError, ProcessStartError, StackError
from app.stack.process import LeashedProcess, ProcessSpec
from app.stack.progress import Say

POLL_S = 0.1
REMIND_EVERY_S = 15.0
AFTER_KILL_S = 15.0


class State(StrEnum):
    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A process of the stack and what is known about it.

    Attributes:
        name: also the log's name.
        ready: asked again and again until True; must answer within seconds.
        ready_within_s: after so long without it the start has failed.
        usually: how long a start takes, for a person ("40 to 60 s").
        essential: whether the stack is of no use without it.
        beside: whether its process may start while the service before it still does, because it
            waits for that one itself.
        kind: services of one kind stand in for one another: an essential one that was given up
            ends the stack only if no other of its kind is left.
    """

    name: str
    spec: ProcessSpec
    ready: Callable[[], bool]
    ready_within_s: float
    usually: str
    log: Path
    restart: RestartPolicy
    essential: bool = True
    beside: bool = False
    kind: str = ""


class Keeper:
    """Starts, watches, restarts and stops the process of one service."""

    def __init__(self, service: Service, *, say: Say, on_change: Callable[[], None]) -> None:
        self.service = service
        self._say = say
        self._on_change = on_change
        self._process: LeashedProcess | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._began = 0.0
        self.state = State.IDLE
        self.restarts = 0
        self.failure: StackError | None = None

    @property
    def pid(self) -> int | None:
        """The running process, or None."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    @property
    def leash_pid(self) -> int | None:
        process = self._process
        return None if process is None or process.poll() is not None else process.leash_pid

    def start(self) -> None:
        """Starts the process and waits until it is ready; then keeps it so.

        Raises:
            ProcessStartError: it ended or stayed unready; nothing is left of it.
        """
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """The first half of ``start``: the process runs, and nobody has waited for it.

        Raises:
            ProcessStartError: it could not be started.
        """
        self._stopping.clear()
        self.failure = None
        logs.begin(self.service.log)
        try:
            self._spawn()
        except BaseException:  # Ctrl-C included: no process may stay behind
            self._kill_and_wait()
            raise

    def await_ready(self) -> None:
        """The second half of ``start``.

        Raises:
            ProcessStartError: it ended or stayed unready; nothing is left of it.
        """
        try:
            self._wait_until_ready()
        except BaseException:  # Ctrl-C included: no process may stay behind
            self._kill_and_wait()
            raise
        self._thread = threading.Thread(
            target=self._keep, name=f"keeper-{self.service.name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ends the process in order (SIGTERM, after its grace SIGKILL), and waits for that."""
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()
        if self._thread is not None:
            # The thread ends with the process, which the leash kills after its grace.
            self._thread.join(self.service.spec.stop_grace_s + AFTER_KILL_S)
            self._thread = None
        self._kill_and_wait()
        self._enter(State.STOPPED)

    def kill(self) -> None:
        """Ends the process at once."""
        self._stopping.set()
        if self._process is not None:
            self._process.kill()

    def _spawn(self) -> None:
        self._enter(State.STARTING)
        self._began = time.monotonic()
        try:
            with logs.open_for_append(self.service.log) as output:
                self._process = LeashedProcess.start(self.service.spec, output=output)
        except OSError as exc:  # no such program, no log folder, no memory for a process
            raise self._start_error(str(exc)) from exc
        self._on_change()

    def _wait_until_ready(self) -> None:
        process, began = self._process, self._began
        assert process is not None
        remind_at = began + REMIND_EVERY_S
        while True:
            is_ready = self.service.ready()
            waited_s = time.monotonic() - began
            # Asked after readiness: on a port that was taken meanwhile, a stranger may answer.
            code = process.poll()
            if code is not None:
                raise self._start_error(f"it {describe_exit(code)} after {waited_s:.0f} s")
            if is_ready:
                break
            if waited_s > self.service.ready_within_s:
                raise self._start_error(f"it was not ready within {waited_s:.0f} s")
            if time.monotonic() > remind_at:
                self._say(f"{self.service.name}: still starting, {waited_s:.0f} s so far")
                remind_at += REMIND_EVERY_S
            if self._stopping.wait(POLL_S):
                raise self._start_error("it was stopped while starting")
        self._enter(State.READY)
        self._say(f"{self.service.name}: ready after {time.monotonic() - began:.0f} s")

    def _keep(self) -> None:
        """The thread: waits for the process to end, and starts it again."""
        row = 0
        while True:
            ready_since = time.monotonic()
            self._watch()
            if self._stopping.is_set():
                return
            row = self.service.restart.row(row, ready_for_s=time.monotonic() - ready_since)
            row_after = self._restart(row)
            if row_after is None:
                return
            row = row_after

    def _watch(self) -> None:
        """Returns when the process has ended."""
        process = self._process
        assert process is not None
        while (code := process.wait(1.0)) is None:
            logs.shorten(self.service.log)
        if not self._stopping.is_set():
            self._say(f"{self.service.name}: {describe_exit(code)} unexpectedly")

    def _restart(self, row: int) -> int | None:
        """Tries until it runs again; returns the restarts in a row, or None if it is over."""
        while True:
            delay_s = self.service.restart.delay_s(row)
            if delay_s is None:
                self._give_up(row)
                return None
            self._enter(State.WAITING)
            self._say(
                f"{self.service.name}: starting again in {delay_s:.0f} s "
                f"(usually takes {self.service.usually})"
            )
            if self._stopping.wait(delay_s):
                return None
            row += 1
            self.restarts += 1
            try:
                self._spawn()
                self._wait_until_ready()
                return row
            except ProcessStartError as exc:
                self._kill_and_wait()
                if self._stopping.is_set():
                    return None
                self._say(str(exc))

    def _give_up(self, attempts: int) -> None:
        self.failure = ProcessGaveUpError(
            name=self.service.name, attempts=attempts, log=self.service.log
        )
        self._enter(State.FAILED)
        self._say(str(self.failure))

    def _kill_and_wait(self) -> None:
        """Makes sure that nothing is left of the process."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait(AFTER_KILL_S)

    def _start_error(self, why: str) -> ProcessStartError:
        return ProcessStartError(
            name=self.service.name,
            why=why,
            log=self.service.log,
            last_lines=logs.last_lines(self.service.log),
        )

    def _enter(self, state: State) -> None:
        self.state = state
        self._on_change()


def describe_exit(code: int) -> str:
    """What an exit status says: "ended with status 3", "was killed by signal 9"."""
    return f"was killed by signal {code - 128}" if code > 128 else f"ended with status {code}"
