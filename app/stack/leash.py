"""Holds one child process, and ends it with all its descendants when the supervisor is gone.

Run as a script by path (``python -I -S leash.py … -- COMMAND``): it imports the standard library
only, so it costs a few milliseconds. One leash holds one child:

    supervisor ──pipe on stdin──▶ leash (session leader, subreaper) ──▶ child ──▶ grandchildren

* The pipe carries ``t`` (end the child: SIGTERM, after the grace SIGKILL) and ``k`` (SIGKILL now).
  Its end of file means that the supervisor died, SIGKILL included: the same as ``t``.
* Grandchildren that lose their parent come to the leash (PR_SET_CHILD_SUBREAPER), so that it can
  end every one of them, whatever session or group it moved to.
* If the leash itself is killed, the kernel kills the child (PR_SET_PDEATHSIG).
* Last, files of POSIX shared memory that the child leaves behind are unlinked.

The first line on stdout is JSON: ``{"pid": 123}``, or ``{"error": "…"}`` if the command could not
be run. The child's own output goes to the leash's stderr, and it reads nothing; ``--stdin``
and ``--stdout`` give it file descriptors that the leash was started with instead. The exit status
is the child's, or 128 + the signal that ended it.
"""

import argparse
import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
# Source: include/uapi/linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STATUS_NOT_RUN = 127
KILL_PATIENCE_S = 10.0


def main(arguments: list[str]) -> int:
    options, command = _parse(arguments)
    wake = _wake_on_signals()
    began = time.time()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        child = _spawn(command, stdin=options.stdin, stdout=options.stdout)
    except OSError as exc:
        _tell({"error": f"{exc.filename or command[0]}: {exc.strerror}"})
        return STATUS_NOT_RUN
    try:
        _tell({"pid": child})
        return _hold(child, wake=wake, grace_s=options.grace)
    finally:
        kill_until_gone(_living_after_reaping, patience_s=KILL_PATIENCE_S)
        unlink_shared_memory(options.shared_memory)
        unlink_orphans(options.orphans, since=began)


def descendants(ancestor: int) -> list[int]:
    """Process ids of all living descendants, in no particular order."""
    children: dict[int, list[int]] = {}
    for pid, parent, _session, state in process_table():
        if state != "Z" or parent == ancestor:
            children.setdefault(parent, []).append(pid)
    found: list[int] = []
    frontier = [ancestor]
    while frontier:
        below = children.get(frontier.pop(), [])
        found.extend(below)
        frontier.extend(below)
    return found


def process_table() -> Iterator[tuple[int, int, int, str]]:
    """(pid, parent's pid, session, state letter) of every process one can see."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue  # ended meanwhile
        # The command name stands in brackets and may hold spaces and brackets itself.
        fields = stat.rpartition(")")[2].split()
        yield int(entry.name), int(fields[1]), int(fields[3]), fields[0]


def kill_until_gone(find: Callable[[], list[int]], *, patience_s: float) -> bool:
    """SIGKILL what ``find`` returns, again and again, until it returns nothing.

    Returns False if something outlived the patience.
    """
    deadline = time.monotonic() + patience_s
    while True:
        pids = find()
        if not pids:
            return True
        if time.monotonic() > deadline:
            return False
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.01)


def unlink_shared_memory(prefixes: list[str]) -> list[str]:
    """Unlinks files of POSIX shared memory by the start of their names; returns their names.

    A process that still has one mapped keeps its memory: only the name goes.
    """
    gone = []
    for prefix in prefixes:
        for path in SHARED_MEMORY.glob(f"{prefix}*"):
            path.unlink(missing_ok=True)
            gone.append(path.name)
    return gone


def unlink_orphans(prefixes: list[str], *, since: float) -> list[str]:
    """Unlinks shared memory with random names that nobody has open any more; returns the names.

    For names that many programs choose (``sem.mp-…``): only files and folders of this user that
    were touched since a time (seconds of the epoch), and that no process of this user has mapped
    or open, nor anything in them.
    """
    candidates = [
        path
        for prefix in prefixes
        for path in SHARED_MEMORY.glob(f"{prefix}*")
        if _touched(path, since)
    ]
    if not candidates:
        return []
    used = files_in_use()
    gone = [path for path in candidates if not _is_used(path, used)]
    for path in gone:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return [path.name for path in gone]


def _is_used(path: Path, used: set[str]) -> bool:
    return str(path) in used or any(name.startswith(f"{path}/") for name in used)


def _touched(path: Path, since: float) -> bool:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return False
    return facts.st_uid == os.getuid() and facts.st_ctime >= since


def files_in_use() -> set[str]:
    """Files and folders in shared memory that some process has mapped or open."""
    used: set[str] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            maps = (entry / "maps").read_text(errors="replace")
            used.update(_mapped(maps))
            used.update(str(link.readlink()) for link in (entry / "fd").iterdir())
        except OSError:  # ended meanwhile, or another user's
            continue
    return used


def _mapped(maps: str) -> Iterator[str]:
    """Source: proc_pid_maps(5): the path is the sixth field."""
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith(str(SHARED_MEMORY)):
            yield fields[5]


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="leash", usage="%(prog)s [OPTIONS] -- COMMAND …")
    parser.add_argument("--grace", type=float, required=True, help="seconds")
    parser.add_argument("--stdin", type=int, metavar="FD")
    parser.add_argument("--stdout", type=int, metavar="FD")
    parser.add_argument("--shared-memory", action="append", default=[], metavar="PREFIX")
    parser.add_argument("--orphans", action="append", default=[], metavar="PREFIX")
    # Split by hand: what argparse does with a second "--" differs between Python versions.
    split = arguments.index("--")
    return parser.parse_args(arguments[:split]), arguments[split + 1 :]


def _wake_on_signals() -> int:
    """A file descriptor that becomes readable when a child ends or somebody signals the leash.

    The handlers do nothing and are handlers, not SIG_IGN, because the child would inherit that.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def _spawn(command: list[str], *, stdin: int | None, stdout: int | None) -> int:
    leash = os.getpid()

    def die_with_leash() -> None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != leash:  # it died between the fork and the line above
            os._exit(STATUS_NOT_RUN)

    # preexec_fn is safe here: the leash has one thread. Its death signal is that thread's.
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=sys.stderr if stdout is None else stdout,
        process_group=0,
        preexec_fn=die_with_leash,
    )
    for given in (stdin, stdout):
        if given is not None:  # whoever holds the other ends is to see the child's ends close
            os.close(given)
    child.returncode = 0  # reaped below by waitpid; keeps Popen from waiting for it too
    return child.pid


def _hold(child: int, *, wake: int, grace_s: float) -> int:
    """Waits for the child's end, and for the word to end it."""
    watched = [sys.stdin.fileno(), wake]
    kill_at: float | None = None
    while True:
        status = _reap_all().get(child)
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        timeout = None if kill_at is None else max(0.0, kill_at - time.monotonic())
        ready, _, _ = select.select(watched, [], [], timeout)
        word = _read_words(ready, wake)
        if word is None:
            if kill_at is not None and time.monotonic() >= kill_at:
                _signal_group(child, signal.SIGKILL)
                kill_at = time.monotonic() + 1.0
            continue
        if word == b"":
            watched = [wake]
        if b"k" in word:
            _signal_group(child, signal.SIGKILL)
        elif kill_at is None:
            # To the child alone: an engine ends its own children in the right order.
            _signal(child, signal.SIGTERM)
            kill_at = time.monotonic() + grace_s


def _read_words(ready: list[int], wake: int) -> bytes | None:
    """What the supervisor wrote: None for nothing, b"" for the end of file."""
    word: bytes | None = None
    for descriptor in ready:
        received = os.read(descriptor, 64)
        if descriptor != wake:
            word = received
        elif signal.SIGTERM in received and word is None:
            word = b"t"  # somebody sent SIGTERM to the leash itself
    return word


def _living_after_reaping() -> list[int]:
    _reap_all()
    return descendants(os.getpid())


def _reap_all() -> dict[int, int]:
    """Wait statuses of the children that have ended, adopted ones included, by pid."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        _signal(pid, number)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def _tell(fact: dict[str, int | str]) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()
    # Closed, so that the supervisor can wait for its end of file.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
