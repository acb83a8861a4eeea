"""What is simulated: published traces at four sizes of a fleet, and one scaffold for all."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.routing.traces import BLOCK_TOKENS, Arrival, read_trace, stretched

NUM_REPLICAS = (2, 4, 8, 16)
# The traces' own times make eight replicas of these speeds a third to a half busy.
_OWN_REPLICAS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A trace and the replicas that it is sent to.

    Attributes:
        capacities: blocks of 512 tokens in one replica's cache.
    """

    name: str
    file: str
    capacities: tuple[int, ...]
    prefill_tokens_per_s: float


WORKLOADS = (
    Workload(
        name="conversation",
        file="mooncake_conversation.jsonl",
        capacities=(1600, 3200, 6400),
        prefill_tokens_per_s=10_000,
    ),
    Workload(
        name="synthetic",
        file="mooncake_synthetic.jsonl",
        capacities=(800, 1600, 3200),
        prefill_tokens_per_s=14_000,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One workload at one size of the fleet and of its caches."""

    workload: Workload
    num_replicas: int
    capacity: int

    def arrivals(self, folder: Path) -> list[Arrival]:
        """The trace's requests, as fast as keeps so many replicas as busy as eight."""
        arrivals = read_trace(folder / self.workload.file)
        return stretched(arrivals, _OWN_REPLICAS / self.num_replicas)


def cells(folder: Path) -> Iterator[Cell]:
    """Every cell of the grid whose trace is there."""
    for workload in WORKLOADS:
        if (folder / workload.file).exists():
            for num_replicas in NUM_REPLICAS:
                for capacity in workload.capacities:
                    yield Cell(workload=workload, num_replicas=num_replicas, capacity=capacity)


def middle_cells(folder: Path) -> Iterator[Cell]:
    """Each trace's cell at eight replicas with caches of the middle size."""
    return (
        c for c in cells(folder) if c.num_replicas == 8 and c.capacity == c.workload.capacities[1]
    )


def one_scaffold(
    *, requests: int, per_s: float, scaffold_blocks: int = 8, seed: int = 1
) -> list[Arrival]:
    """Requests that share nothing but a long scaffold, which all of them begin with.

    Each has one to three blocks of its own; they come at random times, `per_s` of them a second.
    """
    random = Random(seed)
    scaffold = tuple(range(scaffold_blocks))
    arrivals, at_s, next_block = [], 0.0, scaffold_blocks
    for _ in range(requests):
        at_s += random.expovariate(per_s)
        own = random.randint(1, 3)
        blocks = (*scaffold, *range(next_block, next_block + own))
        next_block += own
        arrivals.append(
            Arrival(at_s=at_s, tokens=len(blocks) * BLOCK_TOKENS, output_tokens=50, blocks=blocks)
        )
    return arrivals
