"""Runs a tool to its end and reads its output line by line, with time for progress in between.

The tool is on a leash: if the supervisor is killed, so is the tool.
"""

import contextlib
import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.stack.process import CommandNotRunError, LeashedProcess, ProcessSpec

TAIL_LINES = 200
END_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """How a tool ended; ``lines`` are the last of its stdout and stderr together."""

    code: int
    lines: tuple[str, ...]

    @property
    def good(self) -> bool:
        return self.code == 0


def run_tool(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    on_line: Callable[[str], None] = lambda _line: None,
    on_tick: Callable[[], None] = lambda: None,
    tick_s: float = 2.0,
) -> ToolResult:
    """Runs a command; a command that cannot be run has code 127.

    Args:
        on_line: gets each line of output without its end.
        on_tick: called about every ``tick_s`` seconds.
    """
    spec = ProcessSpec(argv=tuple(argv), env=env, cwd=cwd, stop_grace_s=5.0)
    read_end, write_end = os.pipe()
    with contextlib.ExitStack() as opened:
        opened.callback(os.close, read_end)
        try:
            process = LeashedProcess.start(spec, output=write_end)
        except CommandNotRunError as exc:
            return ToolResult(code=127, lines=(str(exc),))
        finally:
            os.close(write_end)
        opened.callback(_end, process)
        tail: deque[str] = deque(maxlen=TAIL_LINES)
        for line in _lines(read_end, on_tick=on_tick, tick_s=tick_s):
            tail.append(line)
            on_line(line)
        code = process.wait(END_S)
        return ToolResult(code=-1 if code is None else code, lines=tuple(tail))


def tool_environment(base: Mapping[str, str]) -> dict[str, str]:
    """The user's environment without what would lead a Python tool to another installation.

    What a tool compiles it may keep: an environment of the stack's own is no place of the user's.
    pip's own configuration (``PIP_…``, files) stays, but for the options that move the target.
    """
    moved = {
        "PIP_PREFIX",
        "PIP_TARGET",
        "PIP_USER",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "VIRTUAL_ENV",
        "__PYVENV_LAUNCHER__",
    }
    kept = {name: value for name, value in base.items() if name not in moved}
    return kept | {"PYTHONUNBUFFERED": "1", "PIP_NO_INPUT": "1"}


def _lines(descriptor: int, *, on_tick: Callable[[], None], tick_s: float) -> Iterator[str]:
    """Lines until the end of file, calling ``on_tick`` on the way."""
    rest = b""
    next_tick = time.monotonic() + tick_s
    while True:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, next_tick - time.monotonic()))
        if time.monotonic() >= next_tick:
            on_tick()
            next_tick = time.monotonic() + tick_s
        if not ready:
            continue
        received = os.read(descriptor, 65536)
        *whole, rest = (rest + received).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace").rstrip("\r")
        if not received:
            if rest:
                yield rest.decode(errors="replace")
            return


def _end(process: LeashedProcess) -> None:
    process.kill()
    process.wait(END_S)
