"""What a machine tells of itself within a few seconds, out of /proc and /sys.

What isn't there is None.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_CPUS = Path("/sys/devices/system/cpu")
_SLEEP_S = 0.002
_LOOP = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Another process that used the CPU, in cores."""

    name: str
    pid: int
    cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """A few seconds of a machine.

    Attributes:
        stolen, used: shares of all CPU time; `used` is without this process.
        sleep_late_p99_s: by how much sleeps of 2 ms ended late.
        loop_spread: how much longer the same computation took at p90 than at best.
        governors: of the CPU's frequency, each that is set somewhere.
        swap_used_bytes, swapped_pages: what lies in swap, and how much moved meanwhile.
    """

    seconds: float
    cores: int
    load_average: tuple[float, float, float]
    stolen: float | None
    used: float | None
    sleep_late_p50_s: float
    sleep_late_p99_s: float
    loop_best_s: float
    loop_spread: float
    busy: tuple[Busy, ...]
    governors: tuple[str, ...] | None
    memory_available: float | None
    swap_used_bytes: int | None
    swapped_pages: int | None


def read_machine(seconds: float = 4.0) -> Readings:
    """Watch for so long: half of the time asleep, half of it computing."""
    cores = len(os.sched_getaffinity(0))
    cpu, processes, swapped = _cpu_ticks(), _process_ticks(), _swapped_pages()
    mine, began = time.process_time(), time.perf_counter()
    late = _late_sleeps(seconds / 2)
    loops = _loops(seconds / 2)
    took = time.perf_counter() - began
    own = (time.process_time() - mine) / (took * cores)
    swapped_after = _swapped_pages()
    memory = _memory()
    return Readings(
        seconds=took,
        cores=cores,
        load_average=os.getloadavg(),
        **_shares(cpu, _cpu_ticks(), own),
        sleep_late_p50_s=_quantile(late, 0.5),
        sleep_late_p99_s=_quantile(late, 0.99),
        loop_best_s=min(loops),
        loop_spread=_quantile(loops, 0.9) / min(loops) - 1,
        busy=_busy(processes, _process_ticks(), took),
        governors=_governors(),
        memory_available=_share(memory.get("MemAvailable"), memory.get("MemTotal")),
        swap_used_bytes=_swap_used(memory),
        swapped_pages=None if swapped is None or swapped_after is None else swapped_after - swapped,
    )


def _late_sleeps(seconds: float) -> list[float]:
    """How late each of many short sleeps ended, by absolute times as a load generator has them."""
    late = []
    due = time.perf_counter()
    end = due + seconds
    while due < end:
        due += _SLEEP_S
        wait = due - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        now = time.perf_counter()
        late.append(now - due)
        due = max(due, now - _SLEEP_S)  # what was missed isn't made up for
    return late


def _loops(seconds: float) -> list[float]:
    """How long the same computation took, again and again."""
    took = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        value = 0
        for number in range(_LOOP):
            value += number
        took.append(time.perf_counter() - began)
    return took


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _cpu_ticks() -> list[int] | None:
    """user, nice, system, idle, iowait, irq, softirq, steal since boot."""
    try:
        return [int(part) for part in (_PROC / "stat").read_text().split("\n")[0].split()[1:9]]
    except (OSError, ValueError):
        return None


def _shares(
    before: list[int] | None, after: list[int] | None, own: float
) -> Mapping[str, float | None]:
    """Steal and use of all CPU time; our own part of it doesn't count as use."""
    if before is None or after is None:
        return {"stolen": None, "used": None}
    ticks = [b - a for a, b in zip(before, after, strict=True)]
    whole = sum(ticks)
    if not whole:
        return {"stolen": None, "used": None}
    user, nice, system, _, _, irq, softirq, steal = ticks
    used = (user + nice + system + irq + softirq) / whole - own
    return {"stolen": steal / whole, "used": max(0.0, used)}


def _process_ticks() -> dict[int, tuple[str, int]]:
    """CPU ticks of each other process."""
    found = {}
    for folder in _PROC.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it ended meanwhile
        parts = rest.split()
        found[int(folder.name)] = (name, int(parts[11]) + int(parts[12]))
    return found


def _busy(
    before: Mapping[int, tuple[str, int]], after: Mapping[int, tuple[str, int]], seconds: float
) -> tuple[Busy, ...]:
    """Those that used a twentieth of a core or more, the busiest first."""
    hertz = os.sysconf("SC_CLK_TCK")
    found = [
        Busy(name=name, pid=pid, cores=(ticks - before[pid][1]) / hertz / seconds)
        for pid, (name, ticks) in after.items()
        if pid in before
    ]
    busy = [each for each in found if each.cores >= 0.05]
    return tuple(sorted(busy, key=lambda each: -each.cores))


def _governors() -> tuple[str, ...] | None:
    files = list(_CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    try:
        return tuple(sorted({file.read_text().strip() for file in files})) or None
    except OSError:
        return None


def _memory() -> dict[str, int]:
    """Bytes by the names in /proc/meminfo."""
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
    except OSError:
        return {}
    parts = [line.replace(":", " ").split() for line in lines]
    return {name: 1024 * int(kb) for name, kb, *_ in parts}


def _swap_used(memory: Mapping[str, int]) -> int | None:
    if "SwapTotal" not in memory or "SwapFree" not in memory:
        return None
    return memory["SwapTotal"] - memory["SwapFree"]


def _swapped_pages() -> int | None:
    try:
        lines = (_PROC / "vmstat").read_text().splitlines()
    except OSError:
        return None
    told = dict(line.split() for line in lines)
    return int(told.get("pswpin", 0)) + int(told.get("pswpout", 0))


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole
