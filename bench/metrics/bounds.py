"""What the workload itself allows: re-use of a cache without bounds, and of one pooled LRU. Pure.

Of the messages' own text, in pages, without the words that a chat template puts around it. The
requests are taken one after the other in the workload's order, each whole before the next: with
many at a time an engine can't have what another is still computing.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from math import inf
from typing import Any

import msgspec
import orjson

from bench.routing.block_cache import BlockCache
from bench.workloads.file import Workload, WorkloadRequest
from bench.workloads.vocabulary import Vocabulary

_KEY_BYTES = 8


class Reuse(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of all prompts' units.

    Attributes:
        infinite: of a cache that forgets nothing.
        pooled_lru: of one LRU over all, `pool` units large; None: its size isn't known.
        distinct: units that differ: how large a cache that forgets nothing becomes.
    """

    unit: str
    page: int
    infinite: float
    pooled_lru: float | None
    pool: int | None
    distinct: int


def reuse_bounds(
    workload: Workload,
    vocabulary: Vocabulary,
    *,
    page: int = 16,
    pool: int | None = None,
    passes: int = 1,
) -> list[Reuse]:
    """Of each pass, after those before it.

    Args:
        page: units of a page.
        pool: units that the cache holds; None: only the bound without bounds.
    """
    everything = BlockCache(inf)
    bounded = None if pool is None else BlockCache(pool // page)
    lengths = {request.id: request.max_tokens for request in workload.requests}
    paths = [_paths(request, vocabulary, page, lengths) for request in workload.requests]
    made = []
    for _ in range(passes):
        total = infinite = pooled = 0
        for prompt, whole, units in paths:
            total += units
            infinite += everything.held(prompt) * page
            everything.use(whole)
            if bounded is not None:
                pooled += bounded.held(prompt) * page
                bounded.use(whole)
        made.append(
            Reuse(
                unit=vocabulary.unit,
                page=page,
                infinite=infinite / total if total else 0.0,
                pooled_lru=pooled / total if bounded is not None and total else None,
                pool=pool,
                distinct=len(everything) * page,
            )
        )
    return made


def _paths(
    request: WorkloadRequest, vocabulary: Vocabulary, page: int, lengths: Mapping[str, int]
) -> tuple[list[int], list[int], int]:
    """Chained keys of the prompt's pages, of those with its answer, and the prompt's units."""
    prompt = list(_pieces(orjson.loads(bytes(request.body)), vocabulary, lengths))
    answer = [_role("assistant"), *_answer(request.id, lengths)]
    return _chain(prompt, page), _chain([*prompt, *answer], page), len(prompt)


def _chain(pieces: Sequence[bytes], page: int) -> list[int]:
    made, key = [], b""
    for start in range(0, len(pieces) - page + 1, page):
        digest = blake2b(key, digest_size=_KEY_BYTES)
        for piece in pieces[start : start + page]:
            digest.update(len(piece).to_bytes(4, "little") + piece)
        key = digest.digest()
        made.append(int.from_bytes(key, "little"))
    return made


def _pieces(
    body: Mapping[str, Any], vocabulary: Vocabulary, lengths: Mapping[str, int]
) -> Iterator[bytes]:
    if body.get("foreword"):
        # The gateway puts a collection's texts there: they are not ours to count.
        yield orjson.dumps(body["foreword"], option=orjson.OPT_SORT_KEYS)
    if body.get("tools"):
        yield from _units(orjson.dumps(body["tools"]).decode(), vocabulary)
    for message in body["messages"]:
        yield _role(message["role"])
        match message.get("content"):
            case {"answer_of": str(request_id)}:
                yield from _answer(request_id, lengths)
            case str(text):
                yield from _units(text, vocabulary)
            case list(parts):
                yield from _units(orjson.dumps(parts).decode(), vocabulary)
        if message.get("tool_calls"):
            yield from _units(orjson.dumps(message["tool_calls"]).decode(), vocabulary)


def _role(role: str) -> bytes:
    """Stands for what a chat template puts between messages."""
    return b"\0" + role.encode()


def _units(text: str, vocabulary: Vocabulary) -> Iterator[bytes]:
    if vocabulary.tokenizer is None:
        yield from (word.encode(errors="surrogatepass") for word in text.split())
    else:
        ids = vocabulary.tokenizer.encode(text, add_special_tokens=False).ids
        yield from (each.to_bytes(4, "little") for each in ids)


def _answer(request_id: str, lengths: Mapping[str, int]) -> Iterator[bytes]:
    """Stands for an answer that isn't known before it comes; as long as it may be."""
    yield from (f"\0{request_id}/{at}".encode() for at in range(lengths.get(request_id, 0)))
