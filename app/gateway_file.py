"""`run/gateway.json`: how commands find a gateway that `foreword serve` runs in a home folder."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.stack.files import private_folder, write_whole
from app.stack.paths import HomePaths, resolve
from app.stack.ports import LOOPBACK

_NAME = "gateway.json"


@contextmanager
def announced(home: Path, url: str) -> Iterator[None]:
    """Found by commands while it lasts; of several gateways in one home, the last one.

    Raises:
        OSError: nothing can be written there.
    """
    path = _path(home)
    own = json.dumps({"url": url, "pid": os.getpid()}).encode()
    write_whole(private_folder(path.parent) / path.name, own, durable=False)
    try:
        yield
    finally:
        if _read(path) == own:
            path.unlink(missing_ok=True)


def announced_url(home: Path) -> str | None:
    """The base URL of a gateway whose process is there."""
    raw = _read(_path(home))
    try:
        facts = json.loads(raw or b"")
        url, pid = str(facts["url"]), int(facts["pid"])
        os.kill(pid, 0)
    except (ValueError, KeyError, TypeError, ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass  # another user's process
    return url


def local_url(host: str, port: int) -> str:
    """How a program on this machine reaches what listens there."""
    host = LOOPBACK if host in {"0.0.0.0", "::"} else host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _path(home: Path) -> Path:
    return HomePaths(resolve(home)).run / _NAME


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
