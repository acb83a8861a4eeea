"""Ending the processes that tests start."""

import signal
import subprocess
from typing import Any


def end(
    process: "subprocess.Popen[Any]",
    number: signal.Signals = signal.SIGTERM,
    *,
    within_s: float = 120.0,
) -> int:
    """Its exit code after a signal; one that goes on all the same is killed, and that is an error.

    Raises:
        subprocess.TimeoutExpired: it had to be killed.
    """
    process.send_signal(number)
    try:
        return process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
