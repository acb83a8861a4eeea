"""Programs that are started, killed, stopped and started again."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_STOP_S = 60.0


class Child:
    """One program; it may be started many times."""

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        name: str,
        *,
        env: Mapping[str, str],
        user: str | None = None,
    ) -> None:
        self.log = folder / f"{name}.log"
        self._command = list(command)
        self._folder = folder
        self._env = dict(env)
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def start(self) -> None:
        """It runs in its folder, where no settings of ours are; what it says is in `log`."""
        if self._process is not None:
            self._process.wait(_STOP_S)  # one that was killed has a record that must be read
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._env,
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # An interrupt from the keyboard ends us in order; it mustn't reach them first.
                process_group=0,
            )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it and wait for that, however it stands."""
        process = self._process
        if process is None:
            return
        for pid in tree(process.pid):
            signal_one(pid, signal.SIGCONT)
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tree(pid: int) -> list[int]:
    """A process and all that it started, itself first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def signal_tree(pid: int, number: signal.Signals) -> None:
    """Signal a process and all that it started."""
    for one in tree(pid):
        signal_one(one, number)


def signal_one(pid: int, number: signal.Signals) -> None:
    """Signal a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_for_end(pid: int, within_s: float = 10.0) -> None:
    """Until a process is gone, or only its record is left."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.02)
