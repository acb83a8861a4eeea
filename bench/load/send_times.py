"""When requests are to be sent, from the seed, before the clock starts. Pure."""

from collections.abc import Sequence
from itertools import accumulate

from bench.errors import WorkloadError
from bench.run_folder import Load
from bench.workloads.chance import Chance
from bench.workloads.file import WorkloadRequest

Chain = Sequence[WorkloadRequest]
"""Requests that are sent one after the other, each after the answer to the one before."""


def chains_of(requests: Sequence[WorkloadRequest]) -> list[Chain]:
    """Sessions, and requests that belong to none, in the order of their first requests."""
    made: dict[str | int, list[WorkloadRequest]] = {}
    for number, request in enumerate(requests):
        made.setdefault(number if request.session is None else request.session, []).append(request)
    return list(made.values())


def send_times_s(load: Load, chains: Sequence[Chain], seed: int) -> list[float] | None:
    """When each chain begins, from the run's start; None in a closed loop, which has no times.

    A rate is that of chains: a session's later turns follow its answers.

    Raises:
        WorkloadError: the trace's own times are asked for, and the workload has none.
    """
    chance = Chance(seed, "arrivals")
    match load.kind:
        case "closed":
            return None
        case "trace":
            return [_own_time(chain[0], load) for chain in chains]
        case "constant":
            gaps = [1.0] * len(chains)
        case "poisson":
            gaps = [chance.exponential() for _ in chains]
        case "gamma":
            gaps = [chance.gamma(load.burstiness or 1.0) for _ in chains]
        case _:
            raise WorkloadError("the load", f"{load.kind} is no known kind")
    rate = load.rate_per_s or 1.0
    # The first is sent at once: nobody gains from waiting for it.
    return [at / rate for at in accumulate([0.0, *gaps[1:]])]


def own_time_s(request: WorkloadRequest, load: Load) -> float | None:
    """The trace's time of a later turn, where those count; None: as soon as it was answered."""
    if load.kind != "trace" or request.at_s is None:
        return None
    return request.at_s / (load.speedup or 1.0)


def in_order_of_time(
    chains: Sequence[Chain], times_s: Sequence[float]
) -> list[tuple[float, Chain]]:
    """Chains by their times; those of one time in the workload's order."""
    return sorted(zip(times_s, chains, strict=True), key=lambda pair: pair[0])


def _own_time(request: WorkloadRequest, load: Load) -> float:
    at_s = own_time_s(request, load)
    if at_s is None:
        problem = "has no times of its own: choose a rate, or lay arrivals over it"
        raise WorkloadError("the workload", problem)
    return at_s
