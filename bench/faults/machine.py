"""What is done to the machine and not to a process: its clock, its disk, its network."""

import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")
_SECONDS = struct.Struct("d")
_RULE = ("-p", "tcp", "-i", "lo", "-m", "comment", "--comment", "foreword-faults", "-j", "DROP")
_CHUNK = b"\0" * 2**16
_REFILL_S = 0.02


class Clock:
    """The time of day of all programs that are started with its environment."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self.env: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "FAULTS_CLOCK_FILE": str(file),
        }
        self.set(0)

    def set(self, offset_s: float) -> None:
        """Let it go wrong by so much, from now on. Written in place: it is mapped."""
        mode = "r+b" if self._file.exists() else "wb"
        with self._file.open(mode) as file:
            file.write(_SECONDS.pack(offset_s))


def build_clock(folder: Path) -> Clock | None:
    """A clock that can be set; None where no C compiler is."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "clock.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        return None
    return Clock(library, folder / "clock")


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """A small file system at `folder`; False where mounting isn't allowed."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    allowed = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield allowed
    finally:
        if allowed:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Not one byte more has room beside what is there; what others free meanwhile is taken too."""
    filler, ended = folder / "filler", threading.Event()
    try:
        with filler.open("wb", buffering=0) as file:

            def keep_full() -> None:
                while not ended.wait(_REFILL_S):
                    _fill(file.fileno(), _CHUNK)
                    _fill(file.fileno(), b"\0" * 512)

            for chunk in (_CHUNK, b"\0" * 512, b"\0"):
                _fill(file.fileno(), chunk)
            keeper = threading.Thread(target=keep_full)
            keeper.start()
            try:
                yield
            finally:
                ended.set()
                keeper.join()
    finally:
        filler.unlink(missing_ok=True)


def _fill(descriptor: int, chunk: bytes) -> None:
    try:
        while os.write(descriptor, chunk):
            pass
    except OSError:
        return


def can_cut() -> bool:
    """Whether packets may be dropped here."""
    if shutil.which("iptables") is None:
        return False
    look = ["iptables", "-w", "-n", "-L", "INPUT"]
    return subprocess.run(look, check=False, capture_output=True).returncode == 0


@contextmanager
def cut_off(port: int) -> Iterator[None]:
    """A cable is out: packets to and from a local port vanish, and nobody is told."""
    rules = [[way, str(port), *_RULE] for way in ("--dport", "--sport")]
    # The protocol must be named before its ports.
    rules = [[*_RULE[:2], *rule[:2], *_RULE[2:]] for rule in rules]
    done: list[list[str]] = []
    try:
        for rule in rules:
            subprocess.run(["iptables", "-w", "-I", "INPUT", *rule], check=True)
            done.append(rule)
        yield
    finally:
        for rule in done:
            subprocess.run(["iptables", "-w", "-D", "INPUT", *rule], check=True)
