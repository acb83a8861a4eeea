"""What a load from a tier costs: so much for each load, so much for each token. Pure.

Two looks at a tier's counters give the loads, bytes and seconds between them. Loads of different
sizes tell the two costs apart; where all have one size, all is counted per token. Loads that were
late took their time, whatever they brought: those that brought nothing count as latency.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

# So few that a tier which became slow shows within minutes of traffic.
WINDOW = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTotals:
    """A tier's counters since its start. `loads` is None where only chunks are counted."""

    loads: int | None
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCost:
    """Seconds for each load, and for each token in it; the evidence is in loads and tokens."""

    latency_s: float
    s_per_token: float
    loads: int
    tokens: float

    @property
    def tokens_per_s(self) -> float:
        """Speed of a load so long that its latency doesn't count; infinite where it is free."""
        return 1 / self.s_per_token if self.s_per_token > 0 else float("inf")

    def seconds(self, tokens: float) -> float:
        """Time to load so many tokens at once."""
        return self.latency_s + tokens * self.s_per_token

    def after(self, other: "LoadCost") -> "LoadCost":
        """The cost of this load and then the other, as from SSD to RAM and from RAM to the GPU."""
        return replace(
            self,
            latency_s=self.latency_s + other.latency_s,
            s_per_token=self.s_per_token + other.s_per_token,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Interval:
    loads: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTrack:
    """What one tier loaded between looks, the newest last. An interval may be all of late loads."""

    last: LoadTotals | None = None
    intervals: tuple[_Interval, ...] = ()

    def advance(self, totals: LoadTotals) -> "LoadTrack":
        """The track up to a later look; counters that fell belong to a server started anew."""
        last = self.last
        if last is None or totals.bytes < last.bytes or totals.seconds < last.seconds:
            return replace(self, last=totals)
        moved, took_s = totals.bytes - last.bytes, totals.seconds - last.seconds
        if moved == 0 and took_s == 0:
            return replace(self, last=totals)
        loads = 0 if totals.loads is None or last.loads is None else totals.loads - last.loads
        interval = _Interval(loads=max(loads, 0), bytes=moved, seconds=took_s)
        return LoadTrack(last=totals, intervals=(*self.intervals, interval)[-WINDOW:])

    def forgotten(self) -> "LoadTrack":
        """The track without its evidence, as when a tier is tried again."""
        return replace(self, intervals=())

    def cost(self, *, bytes_per_token: float) -> LoadCost | None:
        """What a load costs by all intervals; None where nothing was loaded.

        Raises:
            ValueError: bytes_per_token <= 0.
        """
        if bytes_per_token <= 0:
            raise ValueError(f"bytes_per_token is {bytes_per_token}, but must be above 0")
        if not self.intervals:
            return None
        latency_s, s_per_byte = _fit(self.intervals)
        return LoadCost(
            latency_s=latency_s,
            s_per_token=s_per_byte * bytes_per_token,
            loads=sum(interval.loads for interval in self.intervals),
            tokens=sum(interval.bytes for interval in self.intervals) / bytes_per_token,
        )


def _fit(intervals: Sequence[_Interval]) -> tuple[float, float]:
    """Least squares of seconds = latency x loads + s_per_byte x bytes, neither below 0.

    Either way the fitted costs of all loads add up to about the seconds that were measured.
    """
    all_bytes, all_s = sum(i.bytes for i in intervals), sum(i.seconds for i in intervals)
    if not all_bytes:
        return all_s / max(1, sum(i.loads for i in intervals)), 0.0
    loads_loads = sum(float(i.loads) * i.loads for i in intervals)
    loads_bytes = sum(float(i.loads) * i.bytes for i in intervals)
    bytes_bytes = sum(float(i.bytes) * i.bytes for i in intervals)
    loads_s = sum(i.loads * i.seconds for i in intervals)
    bytes_s = sum(i.bytes * i.seconds for i in intervals)
    determinant = loads_loads * bytes_bytes - loads_bytes * loads_bytes
    # Rounding leaves a little where all loads have one size.
    if determinant > 1e-6 * loads_loads * bytes_bytes:
        latency_s = (loads_s * bytes_bytes - bytes_s * loads_bytes) / determinant
        s_per_byte = (bytes_s * loads_loads - loads_s * loads_bytes) / determinant
        if latency_s >= 0 and s_per_byte >= 0:
            return latency_s, s_per_byte
    return 0.0, all_s / all_bytes
