"""Traffic to two replicas, accounted for by the accountant itself: the gateway has only one.

One engine can stand for both: each replica's requests then have salts of their own there, so that
neither re-uses what the other had, and its KV events are told apart by these salts.
"""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec
import zmq

from bench.verdicts.cases import Disturbance, JSONObject, Question
from bench.verdicts.texts import Texts
from cache.accounting import (
    Accountant,
    EngineRules,
    Outcome,
    SentPrompt,
    for_client,
    pieces_of,
)
from cache.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KvEvent, decode_batch
from cache.prefix_index import PrefixIndex
from cache.usage import parse_usage
from cache.verdicts import Accounting

HERE, THERE = "r0", "r1"
_TIMEOUT_S = 60.0
_SETTLES_S = 0.1

Step = tuple[str, Question] | Disturbance


class Replicas:
    """Two replicas, by the addresses of their engines; as a context it holds sockets."""

    def __init__(self, texts: Texts, engines: Mapping[str, str]) -> None:
        self._texts = texts
        self._engines = engines
        self._salt = texts.name()
        self._index = PrefixIndex(page_tokens=texts.page)
        self._accountant = Accountant(self._index)
        self._rules = EngineRules(page_tokens=texts.page)
        self._http = httpx.Client(timeout=_TIMEOUT_S, trust_env=False)
        self._context = zmq.Context()
        self._events = {url: self._subscribed(url) for url in set(engines.values())}

    def __enter__(self) -> Self:
        time.sleep(_SETTLES_S)  # the subscriptions are through
        self._flush()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()
        self._context.destroy(linger=0)

    def run(self, steps: Sequence[Step]) -> list[tuple[JSONObject, JSONObject]]:
        """All steps in order; of each request what a client would see, and its row."""
        told = []
        for step in steps:
            if isinstance(step, tuple):
                told.append(self._ask(*step))
            else:
                self._flush()
        return told

    def _ask(self, replica: str, question: Question) -> tuple[JSONObject, JSONObject]:
        tokenized = self._texts.tokenized(question)
        self._read_events()
        sent = SentPrompt(
            request_id=f"{self._salt}-{time.monotonic_ns()}",
            template=question.template,
            tenant="bench",
            salt=f"{self._salt}-{question.collection}",
            replica=replica,
            packed=tokenized.packed,
            pieces=pieces_of(tokenized),
            scaffold_tokens=0,
            sent_at=time.monotonic(),
        )
        expectation = self._accountant.expect(sent, self._rules)
        answer = self._send(sent, question)
        usage = parse_usage(answer["usage"], answer.get("sglext"), lmcache_tiers=frozenset())
        self._read_events()
        outcome = Outcome(
            cached_tokens=usage.cached_tokens, ended_at=time.monotonic(), completed=True
        )
        accounting = self._accountant.settle(expectation, outcome)
        shown = for_client(accounting, sent.scaffold_tokens)
        return _row(sent, usage.cached_tokens, shown), _row(sent, usage.cached_tokens, accounting)

    def _send(self, sent: SentPrompt, question: Question) -> JSONObject:
        body = {
            "model": "default",
            "messages": [{"role": "user", "content": "-"}],
            "input_ids": memoryview(sent.packed).cast("I").tolist(),
            "cache_salt": f"{sent.salt}.{sent.replica}",
            "max_tokens": question.output_tokens,
            "temperature": 0,
        }
        url = f"{self._engines[sent.replica]}/v1/chat/completions"
        made: JSONObject = self._http.post(url, json=body).raise_for_status().json()
        return made

    def _flush(self) -> None:
        """Both engines, and their replicas know it."""
        for url in self._events:
            while self._http.post(f"{url}/flush_cache").status_code != httpx.codes.OK:
                time.sleep(_SETTLES_S)
        time.sleep(_SETTLES_S)
        self._read_events()
        for replica in self._engines:
            self._index.cleared(replica, at=time.monotonic())

    def _subscribed(self, url: str) -> "zmq.Socket[bytes]":
        told = self._http.get(f"{url}/server_info").raise_for_status().json()["kv_events"]
        socket = self._context.socket(zmq.SUB)
        socket.subscribe(told["topic"])
        socket.connect(f"tcp://{told['endpoint_host']}:{told['endpoint_port_base']}")
        return socket

    def _read_events(self) -> None:
        for url, socket in self._events.items():
            while socket.poll(20):
                for event in decode_batch(socket.recv_multipart()[2]).events:
                    for replica in self._engines:
                        if self._engines[replica] == url:
                            self._apply(replica, event)

    def _apply(self, replica: str, event: KvEvent) -> None:
        at = time.monotonic()
        match event:
            case BlockStored(cache_salt=str() as salt) if salt.endswith(f".{replica}"):
                ours: Any = msgspec.structs.replace(event, cache_salt=salt.rpartition(".")[0])
                self._index.stored(replica, ours, at=at)
            case BlockRemoved():
                self._index.removed(replica, event, at=at)
            case AllBlocksCleared():
                self._index.cleared(replica, at=at)
            case _:
                pass


def _row(sent: SentPrompt, cached: int | None, accounting: Accounting) -> JSONObject:
    """The accounting as a ledger row has it."""
    lost = {verdict.value: tokens for verdict, tokens in accounting.lost.items()}
    divergence = accounting.divergence and accounting.divergence.as_json()
    made = (
        msgspec.structs.asdict(accounting)
        | {"divergence": divergence}
        | {"lost": lost, "verdict": accounting.verdict.value}
    )
    return made | {
        "request_id": sent.request_id,
        "prompt_tokens": sent.tokens,
        "cached_tokens": cached,
        "cached_by_tier": None,
    }
