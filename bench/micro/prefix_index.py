"""`python -m bench.micro.prefix_index`: what the prefix index costs, in bytes a page and in time.

Memory: requests of a made-up workload, and with `--traces FOLDER` of Mooncake's published traces,
are told to an index with all that a gateway tells it: sent, computed, the engine's events of every
new page (so all pages are resident), the answer, and the tiers. It is counted by tracemalloc, and
in a run without that as growth of the process.

Time: a prompt of 5,000 tokens (about 20 KB of text) that is known but for its last 200, with page
keys made from packed ids and from a tuple. Figures are CPU time, the median and
the best tenth of 500.

Traces: https://github.com/kvcache-ai/Mooncake (FAST25-release/traces), blocks of 512 tokens.
"""

import gc
import hashlib
import json
import multiprocessing
import random
import resource
import statistics
import time
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import click
import numpy as np

from cache.kv_events import BlockStored
from cache.page_keys import PageKeys
from cache.prefix_index import PrefixIndex

_TRACE_BLOCK_TOKENS = 512
_PROMPT_TOKENS, _NEW_TOKENS = 5_000, 200
_VOCABULARY = 150_000
_ROUNDS = 500
_TRACES = ("mooncake_conversation.jsonl", "mooncake_synthetic.jsonl")

_T = TypeVar("_T")
Workload: TypeAlias = Callable[[], Iterator["Request"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of a workload: its prompt, and the answer's tokens, as 32-bit ids."""

    salt: str
    prompt: "array[int]"
    answer: "array[int]"


def mooncake(path: Path) -> Iterator[Request]:
    """A trace's requests, one tenant: each 512-token block gets tokens that its id determines."""
    with path.open() as lines:
        for number, line in enumerate(lines):
            row = json.loads(line)
            prompt = array("I")
            for block in row["hash_ids"]:
                prompt.extend(_tokens(block, _TRACE_BLOCK_TOKENS))
            del prompt[row["input_length"] :]
            yield Request(
                salt="tenant", prompt=prompt, answer=_tokens(-number - 1, row["output_length"])
            )


def synthetic(requests: int) -> Iterator[Request]:
    """50 tenants with 5 templates of 1,500 tokens: chats of up to 6 turns, and single questions."""
    chance = random.Random(1)
    for number in range(requests):
        tenant, template = chance.randrange(50), chance.randrange(5)
        prompt = _tokens(template, 1_500)
        for turn in range(chance.choice((1, 1, 2, 3, 4, 6))):
            prompt.extend(_tokens(1_000 + number * 8 + turn, chance.randrange(40, 400)))
            answer = _tokens(-1 - number * 8 - turn, chance.randrange(50, 300))
            yield Request(salt=f"tenant-{tenant}", prompt=array("I", prompt), answer=answer)
            prompt.extend(answer)


def _tokens(seed: int, count: int) -> "array[int]":
    made = np.random.default_rng(abs(seed) * 2 + (seed < 0)).integers(
        0, _VOCABULARY, count, dtype=np.uint32
    )
    return array("I", made.tobytes())


class Gateway:
    """Tells an index all that happens to requests on one replica."""

    def __init__(self, page_tokens: int, max_pages: int) -> None:
        self.index = PrefixIndex(page_tokens=page_tokens, max_pages=max_pages, key=b"bench")
        self.requests = 0

    def serve(self, request: Request) -> None:
        """One request: all but what the index says was left before is stored by the engine."""
        index, salt, at = self.index, request.salt, float(self.requests)
        self.requests += 1
        keys = index.keys(request.prompt)
        known = index.match(keys, salt=salt, sent_at=at).left
        index.sent(keys, salt=salt, replica="one", at=at)
        self._stored(request.prompt, keys, salt, known)
        index.computed(keys, salt=salt, replica="one", at=at)
        whole = request.prompt + request.answer
        keys, known = index.keys(whole), max(known, len(keys))
        self._stored(whole, keys, salt, known)
        index.computed(keys, salt=salt, replica="one", at=at)
        index.tiered(keys, salt=salt, at=at)

    def _stored(self, ids: "array[int]", keys: PageKeys, salt: str, known: int) -> None:
        if known == len(keys):
            return
        size, before = self.index.page_tokens, max(0, known - 1)
        names = [_name(salt, keys.key(page)) for page in range(before, len(keys))]
        event = BlockStored(
            block_hashes=names[known - before :],
            parent_block_hash=names[0] if known else None,
            token_ids=ids[known * size : len(keys) * size].tolist(),
            block_size=size,
            cache_salt=salt,
        )
        self.index.stored("one", event, at=float(self.requests))


def _name(salt: str, key: bytes) -> int:
    """What an engine would call a page."""
    digest = hashlib.blake2b(key, digest_size=8, key=salt.encode()).digest()
    return int.from_bytes(digest, "little", signed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What an index of so many pages took, in bytes."""

    requests: int
    pages: int
    runs: int
    traced_bytes: int
    grown_bytes: int
    estimated_bytes: int

    def text(self) -> str:
        """One line."""
        figures = (self.traced_bytes, self.grown_bytes, self.estimated_bytes)
        a_page = "  ".join(f"{figure / self.pages:6.1f}" for figure in figures)
        return f"{self.requests:7,} {self.pages:9,} {self.pages / self.runs:8.1f}  {a_page}"


def measure_memory(workload: Workload, *, page_tokens: int, max_pages: int) -> Memory:
    """Fills an index twice, each in a process of its own: seen from outside, and traced."""
    grown = _in_new_process(grown_bytes, workload, page_tokens, max_pages)
    return _in_new_process(traced, workload, page_tokens, max_pages, grown)


def grown_bytes(workload: Workload, page_tokens: int, max_pages: int) -> int:
    """By how much the process grows, one small workload's worth of start-up costs left out."""
    _filled(synthetic(20), page_tokens, max_pages)
    gc.collect()
    before = _resident_bytes()
    gateway = _filled(workload(), page_tokens, max_pages)
    gc.collect()
    grown = _resident_bytes() - before
    del gateway
    return grown


def traced(workload: Workload, page_tokens: int, max_pages: int, grown: int) -> Memory:
    """Counts what Python and numpy allocate for an index and don't free."""
    _filled(synthetic(20), page_tokens, max_pages)
    tracemalloc.start()
    gateway = _filled(workload(), page_tokens, max_pages)
    gc.collect()
    return Memory(
        requests=gateway.requests,
        pages=gateway.index.pages,
        runs=gateway.index.runs,
        traced_bytes=tracemalloc.get_traced_memory()[0],
        grown_bytes=grown,
        estimated_bytes=gateway.index.memory_bytes,
    )


def _in_new_process(call: Callable[..., _T], *args: object) -> _T:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(call, *args).result()


def _filled(requests: Iterator[Request], page_tokens: int, max_pages: int) -> Gateway:
    """Stops before anything has to be forgotten."""
    gateway = Gateway(page_tokens, max_pages)
    for request in requests:
        gateway.serve(request)
        if gateway.index.pages > max_pages * 0.97:
            break
    return gateway


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def measure_times(page_tokens: int) -> dict[str, tuple[float, float]]:
    """Median and best tenth in microseconds, by step."""
    index = PrefixIndex(page_tokens=page_tokens)
    for number in range(200):
        keys = index.keys(_prompt(-number - 1))
        index.computed(keys, salt="a", replica="one", at=float(number))
    packed = [_prompt(number).tobytes() for number in range(_ROUNDS)]
    tuples = [tuple(_prompt(number)) for number in range(_ROUNDS // 10)]
    keys_of = [index.keys(ids) for ids in packed]

    def lookup(keys: PageKeys) -> None:
        index.match(keys, salt="a", sent_at=1e6)

    def insert(keys: PageKeys) -> None:
        index.sent(keys, salt="a", replica="one", at=1e6)
        index.computed(keys, salt="a", replica="one", at=1e6)

    def all_of_it(ids: bytes) -> None:
        keys = index.keys(ids)
        lookup(keys)
        insert(keys)

    fresh = [_prompt(number).tobytes() for number in range(_ROUNDS, 2 * _ROUNDS)]
    return {
        "keys, from packed ids": _timed(index.keys, packed),
        "keys, from a tuple": _timed(index.keys, tuples),
        "lookup": _timed(lookup, keys_of),
        "insert": _timed(insert, keys_of),
        "keys + lookup + insert": _timed(all_of_it, fresh),
    }


def _timed(call: Callable[[_T], object], values: list[_T]) -> tuple[float, float]:
    times = []
    gc.collect()
    gc.freeze()  # this program's own data is not the index's business
    for value in values:
        started = time.thread_time_ns()
        call(value)
        times.append((time.thread_time_ns() - started) / 1e3)
    return statistics.median(times), statistics.quantiles(times, n=10)[0]


def _prompt(number: int) -> "array[int]":
    known = _tokens(0, _PROMPT_TOKENS - _NEW_TOKENS)
    return known + _tokens(number * 2 + 1, _NEW_TOKENS)


@click.command()
@click.option("--traces", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--requests", default=20_000, show_default=True, help="Of the made-up workload.")
@click.option("--max-pages", default=1_000_000, show_default=True)
@click.option(
    "--page-tokens", "sizes", multiple=True, type=int, default=(16, 64), show_default=True
)
def main(traces: Path | None, requests: int, max_pages: int, sizes: tuple[int, ...]) -> None:
    """Measure and print."""
    workloads: dict[str, Workload] = {"made-up chats": partial(synthetic, requests)}
    for path in [traces / name for name in _TRACES] if traces else []:
        if path.exists():
            workloads[path.stem] = partial(mooncake, path)
    for size in sizes:
        click.echo(f"\npages of {size} tokens: median and best tenth in microseconds")
        for step, (median, tenth) in measure_times(size).items():
            click.echo(f"  {step:24} {median:7.1f} {tenth:7.1f}")
    click.echo(
        "\nrequests, pages, pages a run; bytes a page: tracemalloc, process growth, estimate"
    )
    for name, workload in workloads.items():
        for size in sizes:
            memory = measure_memory(workload, page_tokens=size, max_pages=max_pages)
            click.echo(f"  {name:22} {size:3} {memory.text()}")


if __name__ == "__main__":
    main()
