"""Sends a plan's cases to the gateways, and does to the engine what the cases ask for."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx

from bench.verdicts.cases import Case, Disturbance, Label, Question, Site
from bench.verdicts.clean import CleanTraffic
from bench.verdicts.client import Answer, GatewayClient
from bench.verdicts.score import Score, Scored
from bench.verdicts.singles import COLD, HIT, notes
from bench.verdicts.texts import Texts

_AT_ONCE = 20
_UNDISTURBED = 6
_WORKERS = 4
_FILLER_TOKENS = 2400
_FLUSH_S = 10.0
_EVENTS_S = 0.2  # what the engine tells of a flush is through
_CLEAN = "clean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What is driven.

    Attributes:
        sites: the gateways' addresses.
        engine: the engine that all of them have in the end.
        pool_tokens: the engine's KV memory.
        drop_events: whether the deaf gateway's events are dropped from now on.
        store_s: how long the tiers take to store what a request left.
    """

    sites: Mapping[Site, str]
    engine: str
    pool_tokens: int
    drop_events: Callable[[bool], None] | None = None
    store_s: float = 2.0


@dataclass(slots=True, kw_only=True)
class _Sent:
    """A case's last answers, one unless it is a burst."""

    case: Case
    answers: list[Answer]


@dataclass(slots=True)
class Driver:
    """Drives one bench once."""

    bench: Bench
    texts: Texts
    _clients: dict[Site, GatewayClient] = field(default_factory=dict)
    _answers: list[tuple[Site, Answer]] = field(default_factory=list)
    _sent: list[_Sent] = field(default_factory=list)
    _clean: list[Answer] = field(default_factory=list)
    _openings: list[Answer] = field(default_factory=list)

    def run(self, plan: Sequence[Case], *, clean_requests: int) -> Score:
        """Clean traffic first, then all cases, then what the ledgers say of each request.

        Raises:
            GatewayAnswerError: a gateway refuses.
        """
        self._clients = {site: GatewayClient(url) for site, url in self.bench.sites.items()}
        try:
            self._prepare()
            self._empty()
            self._clean = self._send_clean(clean_requests)
            for site, between, cases in _batches(plan):
                self._drive(site, between, cases)
            return self._score()
        finally:
            for client in self._clients.values():
                client.close()

    def _prepare(self) -> None:
        for client in self._clients.values():
            for name, text in self.texts.collections.items():
                client.add_collection(name, text)
        self._clients[Site.PLAIN].add_collection(_CLEAN, self.texts.words(150))

    def _send_clean(self, requests: int) -> list[Answer]:
        traffic = CleanTraffic(self.texts, lambda question: self._ask(Site.PLAIN, question))
        self._openings = traffic.open(collection=_CLEAN)
        return traffic.send(requests, collection=_CLEAN)

    def _drive(self, site: Site, between: Disturbance, cases: Sequence[Case]) -> None:
        """One batch: all first requests, the disturbance, all last ones."""
        self._make_room()
        self._all(site, [case.first for case in cases])
        self._disturb(site, between)
        alone = [case for case in cases if case.burst == 1]
        for case, answers in zip(alone, self._all(site, [[c.last] for c in alone]), strict=True):
            self._sent.append(_Sent(case=case, answers=answers))
        for case in cases:
            if case.burst > 1:
                self._sent.append(_Sent(case=case, answers=self._burst(site, case)))

    def _make_room(self) -> None:
        """The engine keeps what the tiers are still storing, and evicts newer KV instead.

        So nothing may depend on what it evicts: each batch begins with an empty pool, and fits.
        """
        self._empty()

    def _all(self, site: Site, questions: Sequence[Sequence[Question]]) -> list[list[Answer]]:
        """Each case's requests one after the other, several cases at a time."""

        def ask(one_case: Sequence[Question]) -> list[Answer]:
            return [self._ask(site, question) for question in one_case]

        with ThreadPoolExecutor(_WORKERS) as pool:
            return list(pool.map(ask, questions))

    def _disturb(self, site: Site, between: Disturbance) -> None:
        match between:
            case Disturbance.FLUSH:
                self._flush()
            case Disturbance.OVERFLOW:
                time.sleep(self.bench.store_s)
                for _ in range(2 * self.bench.pool_tokens // _FILLER_TOKENS):
                    self._ask(site, self._filler(_FILLER_TOKENS))
            case Disturbance.DROP | Disturbance.DROP_AND_FLUSH:
                self._drop(site, flush=between is Disturbance.DROP_AND_FLUSH)

    def _drop(self, site: Site, *, flush: bool) -> None:
        """Events are dropped while there are some; in half of the cases that is soon noticed."""
        assert self.bench.drop_events is not None
        self.bench.drop_events(True)
        if flush:
            self._flush()
        self._ask(site, self._filler(100))
        time.sleep(_EVENTS_S)
        self.bench.drop_events(False)
        if self.texts.random.random() < 0.5:
            self._ask(site, self._filler(100))

    def _flush(self) -> None:
        """Once the tiers have all."""
        time.sleep(self.bench.store_s)
        self._empty()

    def _empty(self) -> None:
        """Drop the engine's cache, once it is idle."""
        deadline = time.monotonic() + _FLUSH_S
        while True:
            answer = httpx.post(
                f"{self.bench.engine}/flush_cache", trust_env=False, timeout=_FLUSH_S
            )
            if answer.status_code == httpx.codes.OK:
                time.sleep(_EVENTS_S)
                return
            if time.monotonic() > deadline:
                answer.raise_for_status()
            time.sleep(0.05)

    def _burst(self, site: Site, case: Case) -> list[Answer]:
        """The same at once, while the engine computes something else."""
        answers: list[Answer] = []
        questions = [self._filler(_FILLER_TOKENS), *[case.last] * case.burst]
        threads = [
            threading.Thread(target=lambda q=question: answers.append(self._ask(site, q)))
            for question in questions
        ]
        for thread in threads:
            thread.start()
            if thread is threads[0]:
                time.sleep(0.02)
        for thread in threads:
            thread.join()
        assert len(answers) == len(threads), "a request of a burst failed"
        prompt = len(self.texts.ids(case.last))
        return [answer for answer in answers if answer.block["prompt_tokens"] == prompt]

    def _filler(self, tokens: int) -> Question:
        return notes(self.texts, self.texts.unique(tokens))

    def _ask(self, site: Site, question: Question) -> Answer:
        answer = self._clients[site].ask(question)
        self._answers.append((site, answer))
        return answer

    def _score(self) -> Score:
        rows = {
            answer.request_id: self._clients[site].row(answer.request_id)
            for site, answer in self._answers
        }
        scored = [
            Scored(
                kind=_kind(sent.case, label),
                label=label,
                row=rows[answer.request_id],
                block=answer.block,
            )
            for sent in self._sent
            for answer, label in _labelled(sent, self.texts)
        ]
        return Score(
            cases=scored,
            clean=[rows[answer.request_id] for answer in self._clean],
            answers=[(answer.block, rows[answer.request_id]) for _, answer in self._answers],
            unforeseeable=frozenset(
                answer.request_id
                for sent in self._sent
                if sent.case.burst > 1 or sent.case.between is Disturbance.DROP_AND_FLUSH
                for answer in sent.answers
            ),
            openings=frozenset(answer.request_id for answer in self._openings),
        )


def _batches(plan: Sequence[Case]) -> Iterator[tuple[Site, Disturbance, Sequence[Case]]]:
    """Cases that are disturbed alike share a disturbance, so many at once.

    Without one, few go at once: their first requests have to be in the pool for their last ones.
    """
    alike: defaultdict[tuple[Site, Disturbance], list[Case]] = defaultdict(list)
    for case in plan:
        alike[case.site, case.between].append(case)
    for (site, between), cases in alike.items():
        at_once = _UNDISTURBED if between is Disturbance.NONE else _AT_ONCE
        for start in range(0, len(cases), at_once):
            yield site, between, cases[start : start + at_once]


def _kind(case: Case, label: Label) -> str:
    """Its line in the table; of a burst, those that lost nothing have lines of their own."""
    if label is case.label:
        return case.kind
    return f"{label.verdict}, {'in a burst' if case.burst > 1 else 'not pushed out'}"


def _is_kept(sent: _Sent, texts: Texts) -> bool:
    """Whether the engine re-used all that the case's first requests had left."""
    earlier = [texts.ids(question) for question in sent.case.first]
    left = texts.left(texts.ids(sent.case.last), *earlier)
    return bool(sent.answers[0].block["cached_tokens"] >= left)


def _labelled(sent: _Sent, texts: Texts) -> Iterator[tuple[Answer, Label]]:
    """Each answer with its label. Of a burst, by what the engine says that it re-used.

    Of those that re-used nothing, one computed it first; the others did it again. What a full pool
    did not push out is no loss either.
    """
    case = sent.case
    if case.burst == 1:
        kept = case.between is Disturbance.OVERFLOW and _is_kept(sent, texts)
        yield sent.answers[0], HIT if kept else case.label
        return
    limit = texts.limit(texts.ids(case.last))
    again = [answer for answer in sent.answers if answer.block["cached_tokens"] < limit]
    first = next((a for a in again if a.block["verdict"] == "cold"), again[0] if again else None)
    for answer in sent.answers:
        if answer not in again:
            yield answer, HIT
        else:
            yield answer, COLD if answer is first else case.label
