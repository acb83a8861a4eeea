"""What the kernel says of one process, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """Kilobytes (1024 bytes), counts, and CPU seconds since its start."""

    rss_kb: int
    anonymous_kb: int
    threads: int
    descriptors: int
    cpu_s: float


def process_state(pid: int) -> ProcessState:
    """Raises FileNotFoundError: there is no such process."""
    folder = Path(f"/proc/{pid}")
    lines = (folder / "status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    # The command's name, in parentheses, may hold spaces.
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return ProcessState(
        rss_kb=int(status["VmRSS"].split()[0]),
        anonymous_kb=int(status["RssAnon"].split()[0]),
        threads=int(status["Threads"]),
        descriptors=len(list((folder / "fd").iterdir())),
        cpu_s=(int(fields[11]) + int(fields[12])) * _TICK_S,
    )
