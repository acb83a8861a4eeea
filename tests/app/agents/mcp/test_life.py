"""Programs end with their gateway, however that ends; and the SDK is loaded only for servers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.app.agents.mcp.conftest import HERE

_GATEWAY = """
import os, sys, anyio
from pathlib import Path
from app.agents.mcp.servers import open_servers
from app.settings import Settings

async def main():
    home = Path(sys.argv[1])
    async with open_servers(Settings().mcp, home=home, environment=os.environ) as servers:
        await servers.session("raw").call("alpha", {}, within_s=60)
        (home / "called").touch()
        await anyio.sleep_forever()

anyio.run(main, backend_options={"use_uvloop": True})
"""
_ROOT = Path(__file__).parents[4]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_program_outlives_its_gateway(tmp_path: Path, number: signal.Signals) -> None:
    """Not even one that heeds neither the end of its stdin nor SIGTERM, nor what it started."""
    command = {
        "command": sys.executable,
        "args": ["-S", str(HERE / "raw_server.py"), str(tmp_path), "stays"],
    }
    gateway = subprocess.Popen(
        [sys.executable, "-c", _GATEWAY, str(tmp_path)],
        cwd=_ROOT,
        env={**os.environ, "FOREWORD_MCP__SERVERS": json.dumps({"raw": command})},
    )
    try:
        _wait_until(lambda: (tmp_path / "called").exists() or gateway.poll() is not None)
        assert gateway.poll() is None
    finally:
        gateway.send_signal(number)
        gateway.wait()
    for name in ("starts", "child"):
        pid = int((tmp_path / name).read_text())
        _wait_until(partial(_is_gone, pid))


def test_the_sdk_is_not_loaded_at_start() -> None:
    """Neither by the gateway nor by a command."""
    program = (
        "import sys, app.serve, app.commands.agents; print(*(n for n in sys.modules if 'mcp' in n))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=_ROOT, check=True
    )
    assert "app.agents.mcp.servers" in done.stdout.split()
    assert [name for name in done.stdout.split() if not name.startswith("app.")] == []


def test_what_a_server_sent_reaches_no_log_through_the_sdk() -> None:
    """Its errors quote the message that they are about."""
    program = (
        "import logging; from app.log import configure_logging as configure;"
        "from app.settings import LogSettings; configure(LogSettings());"
        "[logging.getLogger(n).error('a word of a user') for n in "
        "('mcp.client.streamable_http', 'client', 'other')]"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=_ROOT, check=True
    )
    [line] = done.stderr.splitlines()
    assert json.loads(line)["library"] == "other"


def _wait_until(seen: Callable[[], bool], *, within_s: float = 100.0) -> None:
    deadline = time.monotonic() + within_s
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_gone(pid: int) -> bool:
    """A zombie is gone: whoever is to look after orphans may never do so in a container."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"
