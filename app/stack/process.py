"""One child process under a leash: start it, watch it, end it.

See ``leash.py`` for what the leash guarantees.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from app.stack import leash


class CommandNotRunError(OSError):
    """The operating system would not run the command (no such file, not executable, …)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """What to run, and how to end it."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    stop_grace_s: float = 10.0
    shared_memory: tuple[str, ...] = ()
    """Starts of names in /dev/shm that are its own: unlinked once the process has ended."""
    orphans: tuple[str, ...] = ()
    """Starts of names that other programs use too: unlinked if nobody has the file open."""
    stdin: int | None = None
    """File descriptor that it reads, where it is to read anything."""
    stdout: int | None = None
    """File descriptor that its stdout goes to instead of where its stderr goes."""


class LeashedProcess:
    """A running child. Its methods may be called from any thread."""

    def __init__(
        self, leash_process: subprocess.Popen[bytes], *, pid: int, spec: ProcessSpec, began: float
    ) -> None:
        self._leash = leash_process
        self._spec = spec
        self._sweeping = threading.Lock()
        self._swept = False
        self._began = began
        self.pid = pid

    @classmethod
    def start(cls, spec: ProcessSpec, *, output: IO[bytes] | int) -> Self:
        """Starts the command, its stdout and stderr going to ``output``.

        Descriptors in the spec stay open here: the caller closes them.

        Raises:
            CommandNotRunError: the command could not be run.
        """
        argv = [
            sys.executable,
            "-I",
            "-S",
            str(Path(leash.__file__)),
            f"--grace={spec.stop_grace_s}",
        ]
        argv += [f"--shared-memory={prefix}" for prefix in spec.shared_memory]
        argv += [f"--orphans={prefix}" for prefix in spec.orphans]
        given = {"stdin": spec.stdin, "stdout": spec.stdout}
        descriptors = {name: fd for name, fd in given.items() if fd is not None}
        argv += [f"--{name}={fd}" for name, fd in descriptors.items()]
        began = time.time()
        # A session of its own: the terminal's Ctrl-C reaches the supervisor alone.
        leash_process = subprocess.Popen(
            [*argv, "--", *spec.argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=dict(spec.env),
            cwd=spec.cwd,
            start_new_session=True,
            pass_fds=tuple(descriptors.values()),
        )
        try:
            pid = _read_pid(leash_process)
        except BaseException:  # Ctrl-C included: without the pipe the leash ends the child
            _close(leash_process)
            leash_process.wait()
            raise
        return cls(leash_process, pid=pid, spec=spec, began=began)

    @property
    def leash_pid(self) -> int:
        return self._leash.pid

    def poll(self) -> int | None:
        """The exit status (128 + n for signal n) once everything has ended, else None."""
        code = self._leash.poll()
        if code is None:
            return None
        _close(self._leash)
        if code < 0:
            self._sweep()
            return 128 - code
        return code

    def wait(self, timeout_s: float) -> int | None:
        """``poll`` that waits up to a time."""
        try:
            self._leash.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return self.poll()

    def terminate(self) -> None:
        """Asks for an orderly end; after the grace the leash kills."""
        self._say(b"t")

    def kill(self) -> None:
        """Ends it at once."""
        self._say(b"k")

    def _say(self, word: bytes) -> None:
        assert self._leash.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended already
            self._leash.stdin.write(word)
            self._leash.stdin.flush()

    def _sweep(self) -> None:
        """After a leash was killed: the kernel killed the child, this kills what it had started."""
        with self._sweeping:
            if self._swept:
                return
            session = self._leash.pid
            leash.kill_until_gone(
                lambda: [
                    pid
                    for pid, _parent, its_session, state in leash.process_table()
                    if its_session == session and state != "Z"
                ],
                patience_s=leash.KILL_PATIENCE_S,
            )
            leash.unlink_shared_memory(list(self._spec.shared_memory))
            leash.unlink_orphans(list(self._spec.orphans), since=self._began)
            self._swept = True


def signal_process(pid: int, number: signal.Signals) -> None:
    """Sends a signal; a process that has ended already is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _read_pid(leash_process: subprocess.Popen[bytes]) -> int:
    """The child's pid, which the leash says first."""
    assert leash_process.stdout is not None
    with leash_process.stdout as answer:
        line = answer.readline()
    fact = json.loads(line) if line else {"error": "the leash ended at once"}
    if "pid" not in fact:
        raise CommandNotRunError(fact["error"])
    return int(fact["pid"])


def _close(leash_process: subprocess.Popen[bytes]) -> None:
    assert leash_process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        leash_process.stdin.close()
