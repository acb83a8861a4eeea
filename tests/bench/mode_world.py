"""A pure-clock world of collections, questions, changes and other traffic, to judge `auto` by.

The KV pool is least recently used by tokens: a prefix loses its end first, once what others touched
since needs the room. Time and tokens are stated, nothing sleeps. What is summed are prefill
seconds, loads from a tier among them: neither the fixed part of a request nor retrieval.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge

from msgspec import structs

from app.modes.choosing import Deployment, Question, choose
from app.modes.core import Core, CoreDocument, choose_core
from app.modes.costs import PrefixFacts
from app.modes.gate import GateVerdict
from app.modes.learning import Answered, CollectionLearning, EngineLearning, LearningRules
from app.modes.switch import SwitchRules
from app.modes.ttft import TtftModel
from app.schemas import Mode
from cache.load_cost import LoadCost

TRUTH = TtftModel(fixed_s=0.04, per_token_s=1 / 2500, per_pair_s=1 / 2500 / 5000, per_cached_s=2e-6)
SCAFFOLD = 64
TAIL = 20
CORE_EVERY = 25
_OPEN = GateVerdict(passes=True, note="")


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One collection: `documents` of `document_tokens` each, asked and changed at random times.

    `popularity` is Zipf's exponent of which documents are found; `changed_share` is the share of
    the corpus that a change makes new.
    """

    name: str
    documents: int
    document_tokens: int
    query_per_s: float
    change_per_s: float = 0.0
    changed_share: float = 1.0
    popularity: float = 1.0
    found_documents: int = 6
    found_tokens: int = 200
    begins_s: float = 0.0
    ends_s: float = math.inf

    @property
    def tokens(self) -> int:
        return SCAFFOLD + self.documents * self.document_tokens


@dataclass(frozen=True, kw_only=True)
class WorldSpec:
    """The collections, the engine, and other traffic of so many requests of so many tokens."""

    collections: tuple[Spec, ...]
    lasts_s: float = 3600.0
    window_tokens: int = 32_768
    pool_tokens: int = 100_000
    other_per_s: float = 0.2
    other_tokens: int = 600
    tier: LoadCost | None = None


@dataclass(frozen=True)
class Event:
    at: float
    kind: str
    whose: int
    documents: tuple[int, ...] = ()
    question_tokens: int = 0


def events(world: WorldSpec, seed: int) -> list[Event]:
    """Everything that happens, whatever the modes are."""
    lines = [_others(world, random.Random(f"{seed} others"))]
    for index, spec in enumerate(world.collections):
        ends = min(world.lasts_s, spec.ends_s)
        rng = random.Random(f"{seed} {index} questions")
        weights = [1 / (rank + 1) ** spec.popularity for rank in range(spec.documents)]
        lines.append(
            [
                Event(
                    at=at,
                    kind="ask",
                    whose=index,
                    documents=tuple(
                        dict.fromkeys(
                            rng.choices(range(spec.documents), weights, k=spec.found_documents)
                        )
                    ),
                    question_tokens=rng.randint(15, 80),
                )
                for at in _times(rng, spec.query_per_s, spec.begins_s, ends)
            ]
        )
        rng = random.Random(f"{seed} {index} changes")
        times = _times(rng, spec.change_per_s, spec.begins_s, ends)
        lines.append([Event(at=at, kind="change", whose=index) for at in times])
    return list(merge(*lines, key=lambda event: event.at))


def _others(world: WorldSpec, rng: random.Random) -> list[Event]:
    return [
        Event(at=at, kind="other", whose=-1)
        for at in _times(rng, world.other_per_s, 0, world.lasts_s)
    ]


def _times(rng: random.Random, rate: float, begins: float, ends: float) -> list[float]:
    times, at = [], begins
    while rate > 0:
        at += rng.expovariate(rate)
        if at >= ends:
            break
        times.append(at)
    return times


@dataclass
class Pool:
    """Prefixes by name; what was touched least recently goes first, from its end."""

    capacity: int
    held: dict[str, int] = field(default_factory=dict)  # in order of use, the oldest first
    total: int = 0

    def cached(self, name: str) -> int:
        return self.held.get(name, 0)

    def touch(self, name: str, tokens: int) -> None:
        self.total += tokens - self.held.pop(name, 0)
        self.held[name] = tokens
        over = self.total - self.capacity
        while over > 0:
            oldest = next(iter(self.held))
            lost = min(over, self.held[oldest])
            self.held[oldest] -= lost
            self.total -= lost
            over -= lost
            if not self.held[oldest]:
                del self.held[oldest]

    def cut(self, name: str, tokens: int) -> None:
        """Only so many leading tokens are still right."""
        held = self.held.get(name, 0)
        if held > tokens:
            self.total -= held - tokens
            self.held[name] = tokens


@dataclass
class Site:
    """One collection while the world runs."""

    spec: Spec
    learning: CollectionLearning
    revision: int = 1
    core: Core = field(default_factory=Core)
    core_name: str = ""
    tiered: int = 0
    valid: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    spent_s: float = 0.0
    modes: list[Mode] = field(default_factory=list)


class World:
    """Runs the events. `fixed` names each collection's mode; None lets `auto` choose.

    What `auto` learns from is measured with noise; what is summed is not.
    """

    def __init__(
        self,
        spec: WorldSpec,
        *,
        fixed: Sequence[Mode] | None,
        seed: int,
        rules: SwitchRules | None = None,
        learning: LearningRules | None = None,
    ) -> None:
        self.spec = spec
        self.fixed = fixed
        self.rules = rules or SwitchRules()
        self.truth = TRUTH
        self.engine = EngineLearning()
        self.pool = Pool(spec.pool_tokens)
        start = learning or LearningRules()
        self.sites = [
            Site(each, CollectionLearning(rules=replace(start))) for each in spec.collections
        ]
        self.noise = random.Random(f"{seed} noise")
        self.serial = 0

    def run(self, happened: Sequence[Event]) -> float:
        """Prefill seconds of all collections' questions."""
        for event in happened:
            if event.kind == "other":
                self._other(event)
            elif event.kind == "change":
                self._change(event.whose)
            else:
                self._ask(event)
        return sum(site.spent_s for site in self.sites)

    def _other(self, event: Event) -> None:
        tokens = self.spec.other_tokens
        self._insert(tokens)
        self._measured(Answered(prompt_tokens=tokens, cached_tokens=0), tokens, 0, event.at)

    def _change(self, whose: int) -> None:
        site = self.sites[whose]
        site.revision += 1
        share = site.spec.changed_share
        left = round(site.spec.tokens * (1 - share))
        self.pool.cut(f"corpus {whose}", left)
        site.tiered = min(site.tiered, left)
        site.valid = {name: min(tokens, left) for name, tokens in site.valid.items()}
        site.learning.changed_share.add(share)
        if share >= 1:
            self.pool.cut(site.core_name, 0)

    def _ask(self, event: Event) -> None:
        site = self.sites[event.whose]
        site.learning.ask(event.at, site.revision)
        mode = self._mode(event, site)
        site.modes.append(mode)
        site.asked += 1
        found = {f"d{n}": site.spec.found_tokens for n in event.documents}
        fresh, prefix, name = self._prompt(event, site, mode, found)
        cached = self.pool.cached(name) if name else SCAFFOLD
        loaded = max(0, min(site.tiered, prefix) - cached) if name else 0
        computed = fresh + prefix - cached - loaded
        valid = min(site.valid.get(name, 0), prefix)
        loads_s = self.spec.tier.seconds(loaded) if self.spec.tier and loaded else 0.0
        site.spent_s += TRUTH.compute_s(computed, cached + loaded) + loads_s
        if name:
            self.pool.touch(name, prefix)
            site.tiered = prefix if self.spec.tier else 0
            site.valid[name] = prefix
        self._insert(fresh)
        in_prompt = sum(
            tokens
            for document, tokens in found.items()
            if mode is Mode.RAG or document not in site.learning.core
        )
        answered = Answered(
            collection_id=site.spec.name,
            mode=mode,
            question_tokens=event.question_tokens,
            prompt_tokens=fresh + prefix,
            cached_tokens=cached + loaded,
            loaded_tokens=loaded,
            evicted_tokens=max(0, valid - cached) if name else 0,
            found_tokens=in_prompt,
            found=found if mode is not Mode.CAG else {},
            scaffold_tokens=SCAFFOLD,
            retrieval_s=0.02,
        )
        self._measured(answered, computed, cached + loaded, event.at)
        site.learning.learn(answered, event.at)
        if site.asked % CORE_EVERY == 0:
            self._choose_core(event.whose)

    def _mode(self, event: Event, site: Site) -> Mode:
        if self.fixed is not None:
            mode = self.fixed[event.whose]
            return Mode.RAG if mode is Mode.HYBRID and not site.learning.core else mode
        return choose(
            site.learning,
            self.engine,
            Question(tokens=event.question_tokens),
            self._deployment(event.whose),
            gate=lambda _there, _here: _OPEN,
            rules=self.rules,
            at=event.at,
        ).mode

    def _deployment(self, whose: int) -> Deployment:
        site = self.sites[whose]
        resident = self.pool.cached(f"corpus {whose}")
        core = None
        if site.learning.core:
            core = PrefixFacts(
                tokens=site.core.tokens + SCAFFOLD,
                resident_tokens=self.pool.cached(site.core_name),
                covers=site.core.covers,
            )
        return Deployment(
            window_tokens=self.spec.window_tokens,
            pool_tokens=self.spec.pool_tokens,
            tier=self.spec.tier,
            corpus=PrefixFacts(
                tokens=site.spec.tokens,
                resident_tokens=resident,
                tiered_tokens=max(0, site.tiered - resident),
            ),
            core=core,
        )

    def _prompt(
        self, event: Event, site: Site, mode: Mode, found: Mapping[str, int]
    ) -> tuple[int, int, str]:
        """Fresh tokens, the prefix' tokens, and its name in the pool (none for RAG)."""
        own = event.question_tokens + TAIL
        if mode is Mode.CAG:
            return own, site.spec.tokens, f"corpus {event.whose}"
        if mode is Mode.RAG:
            return own + sum(found.values()), SCAFFOLD, ""
        rest = sum(t for document, t in found.items() if document not in site.learning.core)
        return own + rest, site.core.tokens + SCAFFOLD, site.core_name

    def _choose_core(self, whose: int) -> None:
        site = self.sites[whose]
        found = site.learning.found
        candidates = [
            CoreDocument(
                id=f"d{n}",
                position=n,
                tokens=site.spec.document_tokens,
                found=found.get(f"d{n}", 0.0),
                unchanged_s=math.inf if site.spec.change_per_s == 0 else 0.0,
            )
            for n in range(site.spec.documents)
        ]
        budget = min(self.spec.window_tokens, self.spec.pool_tokens) // 4
        site.core = choose_core(candidates, budget_tokens=budget, current=site.learning.core)
        before, site.learning.core = site.learning.core, site.core.ids
        if site.core.ids[: len(before)] != before or not before:
            self.serial += 1
            site.core_name = f"core {whose} {self.serial}"

    def _insert(self, tokens: int) -> None:
        self.serial += 1
        self.pool.touch(f"once {self.serial}", tokens)

    def _measured(self, answered: Answered, computed: int, cached: int, at: float) -> None:
        tier = self.spec.tier
        loaded = answered.loaded_tokens or 0
        load_s = tier.seconds(loaded) if tier and loaded else 0.0
        seconds = TRUTH.seconds(computed, cached) * self.noise.lognormvariate(0, 0.05) + load_s
        seconds += answered.retrieval_s or 0.0
        self.engine.learn(structs.replace(answered, ttft_s=seconds), at)


def best_fixed(spec: WorldSpec, seed: int) -> tuple[float, tuple[Mode, ...]]:
    """The least prefill seconds of any fixed choice of modes, found by changing one at a time.

    From all-RAG and from all-CAG, until no single change helps.
    """
    happened = events(spec, seed)
    fits = [
        each.tokens + 200 <= min(spec.window_tokens, spec.pool_tokens) for each in spec.collections
    ]

    def cost(modes: tuple[Mode, ...]) -> float:
        return World(spec, fixed=modes, seed=seed).run(happened)

    starts = [
        tuple(Mode.RAG for _ in fits),
        tuple(Mode.CAG if each else Mode.RAG for each in fits),
    ]
    return min((_descended(start, fits, cost) for start in starts), key=lambda found: found[0])


def _descended(
    modes: tuple[Mode, ...], fits: Sequence[bool], cost: Callable[[tuple[Mode, ...]], float]
) -> tuple[float, tuple[Mode, ...]]:
    best = cost(modes)
    improved = True
    while improved:
        improved = False
        for index, fit in enumerate(fits):
            for mode in (Mode.RAG, Mode.HYBRID, *((Mode.CAG,) if fit else ())):
                if mode is modes[index]:
                    continue
                tried = (*modes[:index], mode, *modes[index + 1 :])
                seconds = cost(tried)
                if seconds < best - 1e-9:
                    best, modes, improved = seconds, tried, True
    return best, modes


def mixed(seed: int) -> WorldSpec:
    """The mixed workload: static small, static large, changing, rarely asked, too large."""
    rng = random.Random(f"{seed} sizes")

    def about(value: float) -> float:
        return value * rng.uniform(0.6, 1.6)

    return WorldSpec(
        collections=(
            Spec(name="static small", documents=8, document_tokens=400, query_per_s=about(0.12)),
            Spec(name="static large", documents=40, document_tokens=500, query_per_s=about(0.15)),
            Spec(
                name="changing",
                documents=20,
                document_tokens=500,
                query_per_s=about(0.05),
                change_per_s=about(0.03),
                changed_share=rng.uniform(0.4, 1.0),
            ),
            Spec(name="rarely asked", documents=40, document_tokens=500, query_per_s=about(0.0012)),
            Spec(name="too large", documents=400, document_tokens=500, query_per_s=about(0.08)),
        ),
        other_per_s=about(0.2),
    )
