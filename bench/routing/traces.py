"""Mooncake's published traces: when requests came, how long they were, and what they shared.

Source: kvcache-ai/Mooncake, FAST25-release (Apache-2.0). The files are not part of the project.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.traces.mooncake import BLOCK_TOKENS, mooncake_requests

__all__ = ["BLOCK_TOKENS", "Arrival", "read_trace", "stretched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request of a trace.

    Attributes:
        at_s: since the trace's beginning.
        blocks: chained ids of the prompt's blocks of 512 tokens, the last one perhaps not full:
            an id stands for its block and all before it.
    """

    at_s: float
    tokens: int
    output_tokens: int
    blocks: tuple[int, ...]


def read_trace(path: Path) -> list[Arrival]:
    """The requests of a trace file, in order of arrival.

    Raises:
        TraceError: the file can't be read, or a line isn't such a row.
    """
    return [
        Arrival(
            at_s=request.at_s or 0.0,
            tokens=request.input_tokens,
            output_tokens=request.output_tokens,
            blocks=tuple(request.blocks),
        )
        for request in mooncake_requests(path)
    ]


def stretched(arrivals: Iterable[Arrival], factor: float) -> list[Arrival]:
    """The same requests with all times multiplied: the load of another number of replicas."""
    return [
        Arrival(
            at_s=a.at_s * factor, tokens=a.tokens, output_tokens=a.output_tokens, blocks=a.blocks
        )
        for a in arrivals
    ]
