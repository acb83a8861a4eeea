"""What SGLang's own tree would find: whole nodes go, and room is made before a prompt is computed.

Slower than the other replays and for one capacity at a time; it is what they are held against, and
what is held against the real engine. Requests run one after the other.

Source: sglang 0.5.23 srt/mem_cache/radix_cache.py, unified_radix_cache.py, allocator/base.py.
"""

from collections.abc import Iterable, Iterator

from bench.engine_sim.changes import Namespace
from bench.engine_sim.radix import RadixTree
from bench.replay.curve import Sums
from bench.replay.steps import Step

_ONE = Namespace()


def engine_hits(steps: Iterable[Step], capacity: int, *, page_tokens: int) -> Iterator[int]:
    """Pages that each request finds in a pool of `capacity` pages."""
    tree = RadixTree(page_size=1)
    for step in steps:
        found = tree.match(_ONE, step.path, limit=step.usable)
        tree.lock(found.node)
        tokens = step.input_tokens + step.request.output_tokens
        # The allocator asks for a page more than the prompt needs: its last may begin a new one.
        needed = -(-tokens // page_tokens) - found.tokens + 1
        short = needed - (capacity - tree.total_tokens)
        if short > 0:
            tree.evict(min(short, tree.evictable_tokens))
        # The prompt is kept when it is computed, the answer behind it when it is complete.
        prompt = step.path[: step.input_tokens // page_tokens]
        if len(prompt) + tree.total_tokens - found.tokens <= capacity:
            tree.insert(_ONE, prompt)
            tree.insert(_ONE, step.path)
        tree.unlock(found.node)
        yield found.tokens


def replay_engine(steps: Iterable[Step], capacity: int, *, page_tokens: int, skip: int = 0) -> Sums:
    """What such an engine finds; the first `skip` requests only fill it."""
    sums, kept = Sums(), list(steps)
    for now, (step, pages) in enumerate(
        zip(kept, engine_hits(kept, capacity, page_tokens=page_tokens), strict=True)
    ):
        if now >= skip:
            hit = min(pages * page_tokens, step.input_tokens - 1)
            sums = sums.plus(1, step.input_tokens, hit)
    return sums
