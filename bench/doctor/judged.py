"""Readings judged: is the machine quiet enough? Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.doctor.readings import Readings

_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a quiet machine keeps to.

    Attributes:
        load_per_core: of the last minute.
        stolen, used: shares of all CPU time.
        sleep_late_s: p99; a generator's own bound is of the same size.
        loop_spread: p90 over the best.
        busy_cores: of one other process.
        memory_available: share of all memory.
    """

    load_per_core: float = 0.5
    stolen: float = 0.01
    used: float = 0.1
    sleep_late_s: float = 0.001
    loop_spread: float = 0.1
    busy_cores: float = 0.2
    memory_available: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line; `quiet` is None where it can't be told here, which is no fault."""

    what: str
    told: str
    quiet: bool | None
    advice: str = ""


def judge(found: Readings, bounds: Bounds | None = None) -> list[Finding]:
    """Everything that was looked at, in order."""
    return list(_findings(found, bounds or Bounds()))


def is_quiet(findings: list[Finding]) -> bool:
    """Whether nothing stands against measuring here."""
    return all(finding.quiet is not False for finding in findings)


def _findings(found: Readings, bounds: Bounds) -> Iterator[Finding]:
    load = found.load_average[0] / found.cores
    yield Finding(
        what="load average",
        told=f"{found.load_average[0]:.2f} over the last minute on {found.cores} cores",
        quiet=load <= bounds.load_per_core,
        advice="wait, or end what else runs",
    )
    yield _share(
        "stolen time", found.stolen, bounds.stolen, "another guest takes this CPU: use another host"
    )
    yield _share("CPU used by others", found.used, bounds.used, "end what else runs")
    yield Finding(
        what="timer",
        told=f"sleeps end {1e3 * found.sleep_late_p50_s:.2f} ms late at p50, "
        f"{1e3 * found.sleep_late_p99_s:.2f} ms at p99",
        quiet=found.sleep_late_p99_s <= bounds.sleep_late_s,
        advice="requests would be sent late: the run would be invalid",
    )
    yield Finding(
        what="CPU loop",
        told=f"{100 * found.loop_spread:.0f} % longer at p90 than at best",
        quiet=found.loop_spread <= bounds.loop_spread,
        advice="its speed isn't steady: neighbours, or its frequency changes",
    )
    yield _processes(found, bounds)
    yield _governor(found)
    yield _memory(found, bounds)


def _share(what: str, share: float | None, bound: float, advice: str) -> Finding:
    if share is None:
        return Finding(what=what, told="unknown here", quiet=None)
    return Finding(what=what, told=f"{100 * share:.1f} %", quiet=share <= bound, advice=advice)


def _processes(found: Readings, bounds: Bounds) -> Finding:
    loud = [each for each in found.busy if each.cores >= bounds.busy_cores]
    names = ", ".join(f"{each.name} ({each.pid}) {each.cores:.1f} cores" for each in loud[:5])
    return Finding(
        what="busy processes",
        told=names or "none",
        quiet=not loud,
        advice="end them, or give them CPUs of their own",
    )


def _governor(found: Readings) -> Finding:
    if found.governors is None:
        return Finding(what="frequency governor", told="unknown here", quiet=None)
    return Finding(
        what="frequency governor",
        told=", ".join(found.governors),
        quiet=set(found.governors) == {"performance"},
        advice="set it to `performance`",
    )


def _memory(found: Readings, bounds: Bounds) -> Finding:
    if found.memory_available is None:
        return Finding(what="memory", told="unknown here", quiet=None)
    swap = (
        "" if found.swap_used_bytes is None else f", {found.swap_used_bytes / _GIB:.1f} GiB in swap"
    )
    moved = f", {found.swapped_pages} pages moved" if found.swapped_pages else ""
    return Finding(
        what="memory",
        told=f"{100 * found.memory_available:.0f} % available{swap}{moved}",
        quiet=found.memory_available >= bounds.memory_available and not found.swapped_pages,
        advice="free memory: what swaps can't be timed",
    )
