"""CPU time and memory of a process, from /proc, finer than the clock's ticks."""

from pathlib import Path


def cpu_ns(pid: int) -> int:
    """Nanoseconds on a CPU of all threads that run now."""
    total = 0
    for schedstat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(schedstat.read_text().split()[0])
        except FileNotFoundError:
            continue  # the thread has ended meanwhile
    return total


def rss_mb(pid: int) -> float:
    """Megabytes (2**20) that are resident."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/{pid}/status has no VmRSS")
