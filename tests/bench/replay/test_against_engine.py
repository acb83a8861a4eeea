"""The replay's figures are the real engine's: a small trace is sent to SGLang as token ids."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import httpx
import pytest

from bench.replay.curve import hit_blocks
from bench.replay.engine_like import engine_hits
from bench.replay.reuse import reuses
from bench.replay.steps import Rules, Step, Steps
from bench.traces import SyntheticOptions, Trace, TraceRequest, synthetic_trace
from tests.deploy.guard.real import PAGE_TOKENS, Engine

pytestmark = pytest.mark.engine

POOL_PAGES = 192
OPTIONS = SyntheticOptions(
    requests=220,
    block_tokens=PAGE_TOKENS,
    per_s=1.0,
    openings=4,
    opening_blocks=5,
    turn_blocks=6,
    most_blocks=40,
)


def _uneven() -> Iterator[TraceRequest]:
    """Prompts that end within a page, and answers of one token or of some."""
    for number, request in enumerate(synthetic_trace(OPTIONS)):
        more = number % PAGE_TOKENS
        blocks = [*request.blocks, -1 - number] if more else request.blocks
        tokens = request.input_tokens + more
        yield request._replace(blocks=blocks, input_tokens=tokens, output_tokens=1 + number % 3 * 9)


TRACE = Trace(name="small", block_tokens=PAGE_TOKENS, read=_uneven)


def _token_ids(step: Step) -> list[int]:
    """Each block has ids of its own."""
    ids = [10 + Random(f"{b}/{n}").randrange(4000) for b in step.request.blocks for n in range(16)]
    return ids[: step.input_tokens]


@pytest.fixture(scope="module")
def plain_engine(
    engine_python: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """SGLang with a small pool, its own order of eviction (LRU), and nothing behind it."""
    home = tmp_path_factory.mktemp("plain")
    tokens = POOL_PAGES * PAGE_TOKENS
    engine = Engine(str(engine_python), str(tiny_model), home, None, pool_tokens=tokens)
    try:
        engine.start()
        engine.flush()
        yield engine
    finally:
        engine.close()


def _cached_tokens(engine: Engine, step: Step) -> int:
    sampling = {
        "temperature": 0,
        "max_new_tokens": step.request.output_tokens,
        "ignore_eos": True,
    }
    body = {"input_ids": _token_ids(step), "sampling_params": sampling}
    answer = httpx.post(f"{engine.url}/generate", json=body, timeout=60).raise_for_status()
    return int(answer.json()["meta_info"]["cached_tokens"])


def test_cached_tokens_are_the_engines_within_one_per_cent(plain_engine: Engine) -> None:
    """Same pages, same capacity, LRU: all requests together; by the engine's own order, each."""
    steps = list(Steps(TRACE, Rules(whole_pages=True, answers=True)))
    engine = [_cached_tokens(plain_engine, step) for step in steps]
    [chunk] = reuses(steps)
    by_pages = PAGE_TOKENS * int(hit_blocks(chunk, POOL_PAGES).sum())
    unbounded = PAGE_TOKENS * int(chunk.known.sum())
    by_nodes = [
        PAGE_TOKENS * pages for pages in engine_hits(steps, POOL_PAGES, page_tokens=PAGE_TOKENS)
    ]
    told = f"engine {sum(engine)}, by pages {by_pages}, by nodes {sum(by_nodes)}, of {unbounded}"
    # The pool is small enough to matter.
    assert 0.1 * unbounded < sum(engine) < 0.9 * unbounded, told
    assert abs(sum(by_nodes) - sum(engine)) <= 0.01 * sum(engine), told
    same = sum(one == other for one, other in zip(by_nodes, engine, strict=True))
    assert same >= 0.98 * len(steps), told
    assert abs(by_pages - sum(engine)) <= 0.05 * sum(engine), told
