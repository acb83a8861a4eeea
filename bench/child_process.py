"""A program that a benchmark starts and ends."""

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from app.stack.ports import LOOPBACK, free_ports

_STOP_S = 60.0


@contextmanager
def running_child(
    command: list[str], folder: Path, name: str, environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[str]"]:
    """A program that ends with us; it runs in a folder of ours, where no `foreword.toml` is.

    Its errors are in `NAME.log` there, what it prints is to be read from `stdout`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.log").open("a") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # An interrupt from the keyboard ends us in order; it mustn't reach them first.
            process_group=0,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def free_port() -> int:
    """A port of loopback that nobody listens on at the moment."""
    (port,) = free_ports(1)
    return port


def wait_for_port(process: "subprocess.Popen[str]", port: int, seconds: float) -> bool:
    """Whether something listens on the port of loopback; false if the process ends before."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(ConnectionRefusedError), socket.create_connection((LOOPBACK, port)):
            return True
        time.sleep(0.02)
    return False
