"""Starting a process for a model, which is given one end of a socket and little else."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_PACKAGE_ROOT = Path(__file__).parents[1]
# Of the environment, what the libraries need; secrets stay here.
_PASSED_ON = ("HOME", "HF_HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR")
# The longest wait for its first word: loading reads the weights and imports torch, which takes
# long on a loaded machine.
MODEL_START_S = 300.0


def start_model_process(
    module: str, theirs: socket.socket, arguments: Sequence[str], *, threads: int
) -> "subprocess.Popen[bytes]":
    """`python -m module SOCKET ARGUMENTS… THREADS`, with nothing of this process's environment
    that it doesn't need.

    Args:
        theirs: its end of the socket, inherited by number; close it here afterwards.

    Raises:
        OSError: no process can be started.
    """
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments, str(threads)],
        env={
            **passed_on,
            "PYTHONPATH": str(_PACKAGE_ROOT),
            "PYTHONUTF8": "1",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": str(threads),
            "TOKENIZERS_PARALLELISM": "false",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
