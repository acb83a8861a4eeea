"""How many requests a second met their targets. Pure."""

from collections.abc import Sequence

import msgspec

from bench.run_folder import RequestLine


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """Longest times in seconds; None: not asked for."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    @property
    def stated(self) -> bool:
        """Whether there is any."""
        return any(target is not None for target in (self.ttft_s, self.tpot_s, self.e2e_s))


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """Of all requests; those that failed met nothing.

    Attributes:
        unknown: answered ones for which a stated time isn't known; they don't count as met.
    """

    targets: Targets
    met: int
    unknown: int
    requests: int
    per_s: float | None


def goodput(lines: Sequence[RequestLine], targets: Targets, *, duration_s: float | None) -> Goodput:
    """Requests that met every stated target."""
    verdicts = [_met(line, targets) for line in lines]
    met = sum(verdict is True for verdict in verdicts)
    return Goodput(
        targets=targets,
        met=met,
        unknown=sum(verdict is None for verdict in verdicts),
        requests=len(lines),
        per_s=met / duration_s if duration_s else None,
    )


def _met(line: RequestLine, targets: Targets) -> bool | None:
    if not line.ok:
        return False
    pairs = [(line.ttft_s, targets.ttft_s), (line.e2e_s, targets.e2e_s)]
    # An answer of one token has no time between tokens: nothing to miss.
    if line.output_tokens != 1:
        pairs.append((line.tpot_s, targets.tpot_s))
    asked = [(time_s, target) for time_s, target in pairs if target is not None]
    if any(time_s is not None and time_s > target for time_s, target in asked):
        return False
    return None if any(time_s is None for time_s, _ in asked) else True
