"""What a stack can leave behind, found by the marks it puts on its own things.

Processes carry ``FOREWORD_STACK_ID`` in their environment, shared memory carries the home's
identity in its name.
"""

import signal
import time
from datetime import datetime
from pathlib import Path

from app.stack import leash
from app.stack.commands import STACK_VARIABLE
from app.stack.paths import ORPHAN_PREFIXES, HomePaths
from app.stack.process import signal_process
from app.stack.stack_file import read_stack_file

GRACE_S = 20.0


def marked_processes(home: HomePaths) -> list[int]:
    """Living processes of this home's stack, leashes included, in the order of their ids."""
    mark = f"{STACK_VARIABLE}={home.identity}".encode()
    return sorted(
        pid
        for pid, _parent, _session, state in leash.process_table()
        if state != "Z" and mark in _environment(pid)
    )


def shared_memory(home: HomePaths) -> list[Path]:
    """This home's files of POSIX shared memory."""
    found = {
        path
        for prefix in home.shared_memory_prefixes
        for path in leash.SHARED_MEMORY.glob(f"{prefix}*")
    }
    return sorted(found)


def end_leftovers(home: HomePaths, *, grace_s: float = GRACE_S) -> tuple[list[int], list[str]]:
    """Ends what an earlier stack of this home left; only for who holds the home's lock.

    Leashes whose supervisor was killed are ending their children by themselves: they get the
    grace to do so in order.

    Returns:
        Process ids that had to be killed, and names of shared memory that was unlinked.
    """
    deadline = time.monotonic() + grace_s
    while marked_processes(home) and time.monotonic() < deadline:
        time.sleep(0.1)
    killed = marked_processes(home)
    for pid in killed:
        signal_process(pid, signal.SIGKILL)
    leash.kill_until_gone(lambda: marked_processes(home), patience_s=leash.KILL_PATIENCE_S)
    unlinked = leash.unlink_shared_memory(list(home.shared_memory_prefixes))
    facts = read_stack_file(home.stack_file)
    if facts is not None:  # it was killed, else the file would be gone
        since = datetime.fromisoformat(facts.started).timestamp()
        unlinked += leash.unlink_orphans(list(ORPHAN_PREFIXES), since=since)
    return killed, unlinked


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # ended, or another user's
        return []
