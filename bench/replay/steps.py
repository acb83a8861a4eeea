"""A trace's requests as a cache sees them: what is looked up and what is kept, in blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from bench.errors import ReplayError
from bench.traces import Trace, TraceRequest

# Ids of blocks that only answers have; above every trace's own.
_FIRST_OF_ANSWERS = 1 << 62


class Step(NamedTuple):
    """One request.

    Attributes:
        path: chained ids of what is kept afterwards, the answer's among them if it is counted.
        usable: leading blocks of the path that may be found; those behind are computed anyway.
    """

    path: Sequence[int]
    usable: int
    input_tokens: int
    request: TraceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a cache keeps.

    Attributes:
        page_tokens: of a block of the cache; None: as long as the trace's.
        whole_pages: keep and find whole pages only, and never a prompt's last token, as SGLang
        does.
            Without, the last block of a prompt may be found though it isn't full, as the published
            figures on these traces have it.
        answers: answers take room too. Nobody asks for them again: a trace's later turns bring the
            same words in blocks of their own.
    """

    page_tokens: int | None = None
    whole_pages: bool = False
    answers: bool = False


class Steps:
    """A trace under such rules; can be gone through as often as needed."""

    def __init__(self, trace: Trace, rules: Rules) -> None:
        """Raises: ReplayError: the trace tells nothing of what is shared, or pages don't fit it."""
        if trace.block_tokens is None:
            problem = "has no blocks: nothing tells what its requests share"
            raise ReplayError(trace.name, problem)
        self.name = trace.name
        self.page_tokens = rules.page_tokens or trace.block_tokens
        if self.page_tokens % trace.block_tokens:
            problem = (
                f"has blocks of {trace.block_tokens} tokens: a page of {self.page_tokens} is no "
                "multiple of that"
            )
            raise ReplayError(trace.name, problem)
        self._trace = trace
        self._rules = rules
        self._blocks_a_page = self.page_tokens // trace.block_tokens

    def __iter__(self) -> Iterator[Step]:
        rules, size, merged = self._rules, self.page_tokens, self._blocks_a_page
        answers = count(_FIRST_OF_ANSWERS)
        for request in self._trace:
            path = request.blocks
            tokens = request.input_tokens
            if merged > 1:
                # A chained id stands for all before it: the last one of a page stands for the page.
                path = [*path[merged - 1 :: merged], *(path[-1:] if len(path) % merged else ())]
            usable = len(path)
            if rules.whole_pages:
                path = path[: tokens // size]
                usable = min(len(path), (tokens - 1) // size)
            if rules.answers:
                kept = tokens + max(0, request.output_tokens - 1)
                pages = kept // size if rules.whole_pages else -(-kept // size)
                more = max(0, pages - len(path))
                path = [*path, *(next(answers) for _ in range(more))]
            yield Step(path, usable, tokens, request)

    def hit_tokens(self, blocks: int, step: Step) -> int:
        """Tokens in the leading `blocks` of a prompt; an engine always computes the last one."""
        return min(blocks * self.page_tokens, step.input_tokens - 1)
