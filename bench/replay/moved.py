"""What could be re-used if KV were good wherever its text stands, as CacheBlend has it.

An upper bound for prompts whose documents come in another order. SGLang can't use it today: its
tree finds beginnings only.
"""

from bench.errors import ReplayError
from bench.replay.curve import Sums
from bench.replay.reuse import SeenBlocks
from bench.traces import Trace

NOT_USABLE = "not usable with SGLang today"


def moved_bound(trace: Trace, *, skip: int = 0) -> Sums:
    """Tokens in pieces that any earlier prompt had anywhere, with room for everything.

    Raises:
        ReplayError: the trace's ids are chained, so a piece that moves gets another one.
    """
    if trace.piece_tokens is None:
        problem = "has chained ids only: what moves can't be known from it"
        raise ReplayError(trace.name, problem)
    seen = SeenBlocks()
    sums = Sums()
    for now, request in enumerate(trace):
        again = sum(piece in seen for piece in request.pieces)
        for piece in request.pieces:
            seen.add((piece,))
        if now >= skip:
            hit = min(again * trace.piece_tokens, request.input_tokens - 1)
            sums = sums.plus(1, request.input_tokens, hit)
    return sums
