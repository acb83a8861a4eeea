"""A published trace as a workload: its times and lengths, and a text of its own for each block."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import msgspec

from bench.errors import WorkloadError
from bench.workloads.chance import Chance
from bench.workloads.file import WorkloadRequest, asked
from bench.workloads.vocabulary import Vocabulary


class Traced(Protocol):
    """What a trace has of a request; equal block ids at equal places are equal prefixes."""

    @property
    def at_s(self) -> float | None: ...
    @property
    def blocks(self) -> Sequence[int]: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def session(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceScale:
    """How much of a trace is taken, and how small it is made.

    Attributes:
        block_tokens: tokens that a block has in the trace.
        block_units: units of text that stand for one; all lengths shrink in that proportion.
        keep_sessions: turns of one session wait for each other.
    """

    block_tokens: int
    block_units: int
    num_requests: int | None = None
    skip: int = 0
    keep_sessions: bool = False

    def units(self, tokens: int) -> int:
        """A length of the trace, as it is made here."""
        return max(1, round(tokens * self.block_units / self.block_tokens))


def trace_requests(
    traced: Iterable[Traced], scale: TraceScale, vocabulary: Vocabulary, seed: int
) -> Iterator[WorkloadRequest]:
    """The requests; where a trace has no blocks, no two prompts share anything."""
    blocks = Chance(seed, "block")
    turns: dict[str, int] = {}
    began_s: float | None = None
    stop = None if scale.num_requests is None else scale.skip + scale.num_requests
    for number, each in enumerate(islice(traced, scale.skip, stop)):
        began_s = each.at_s if began_s is None else began_s
        at_s = None if each.at_s is None or began_s is None else round(each.at_s - began_s, 6)
        length = scale.units(each.input_tokens)
        texts = [vocabulary.text(blocks.child(b), scale.block_units) for b in each.blocks]
        # The last block of a prompt is seldom full.
        words = " ".join(texts).split()[:length]
        rest = vocabulary.text(Chance(seed, f"rest/{number}"), length - len(words)).split()
        session = each.session if scale.keep_sessions else None
        turn = 0
        if session is not None:
            turn = turns[session] = turns.get(session, -1) + 1
        yield asked(
            {"messages": [{"role": "user", "content": " ".join(words + rest)}]},
            id=f"trace-{number}",
            at_s=at_s,
            session=session,
            turn=turn,
            max_tokens=scale.units(each.output_tokens),
        )


def lay_arrivals(
    requests: Iterable[WorkloadRequest], times_s: Iterable[float | None]
) -> Iterator[WorkloadRequest]:
    """The requests at other times, one after the other.

    A session's later turns get none: they follow the answer before.

    Raises:
        WorkloadError: there are fewer times than requests and sessions.
    """
    times = iter(times_s)
    began_s: float | None = None
    for request in requests:
        if request.session is not None and request.turn:
            yield msgspec.structs.replace(request, at_s=None)
            continue
        at_s = next(times, None)
        if at_s is None:
            raise WorkloadError(
                "the arrivals", "are too few, or have no times: take fewer requests"
            )
        began_s = at_s if began_s is None else began_s
        yield msgspec.structs.replace(request, at_s=round(at_s - began_s, 6))
