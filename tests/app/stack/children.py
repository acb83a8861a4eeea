"""Small real programs for the supervisor's tests to run."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from app.stack.process import ProcessSpec

SERVER = """
import http.server, os, signal, sys, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)

def stop(*_):
    with open(sys.argv[2], "a") as file:
        file.write(sys.argv[3] + " stopped\\n")
    os._exit(0)

signal.signal(signal.SIGTERM, stop)
print("listening", flush=True)
server.serve_forever()
"""


def python(code: str, *arguments: str) -> tuple[str, ...]:
    """A command that runs a piece of Python."""
    return (sys.executable, "-I", "-S", "-c", textwrap.dedent(code), *arguments)


def spec(
    argv: tuple[str, ...],
    cwd: Path,
    *,
    grace_s: float = 5.0,
    shared_memory: tuple[str, ...] = (),
    orphans: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
) -> ProcessSpec:
    return ProcessSpec(
        argv=argv,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stop_grace_s=grace_s,
        shared_memory=shared_memory,
        orphans=orphans,
    )


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def eventually(holds: Callable[[], bool], *, within_s: float = 60.0) -> bool:
    """Whether something comes true in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return holds()


def run_script(code: str, *arguments: str, cwd: Path) -> "subprocess.Popen[str]":
    """A Python program of its own that may import Foreword; its stdout can be read."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        text=True,
    )
