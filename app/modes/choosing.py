"""Which mode answers a query: rules first, then cost, then whether a switch is earned. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from app.modes.costs import PrefixFacts, Situation, price
from app.modes.gate import GateVerdict
from app.modes.learning import CollectionLearning, EngineLearning
from app.modes.prices import DECIDABLE, Decision, ModeCost, impossible
from app.modes.switch import SwitchRules, step
from app.schemas import Mode
from cache.load_cost import LoadCost

Gate = Callable[[Mode, Mode], GateVerdict]
"""(there, here) → whether quality lets a collection go there."""

_OFTEN_CHANGED = 0.5
_LEAST_QUESTIONS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query as a decision needs it.

    Attributes:
        asked: mode that the request names; `pinned`: that the collection is pinned to.
        filtered: whether filters or access groups narrow what may be shown.
        conversation_mode: that its conversation began in; None for a new one.
        tokens: of the question itself.
        answer_tokens: room kept for the answer.
    """

    asked: Mode | None = None
    pinned: Mode | None = None
    filtered: bool = False
    conversation_mode: Mode | None = None
    tokens: int = 32
    answer_tokens: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What all collections share at a decision.

    Attributes:
        corpus, core: prefixes of this collection as they are now; None while not known.
        corpus_problem: why it can't be shown as a whole, whatever that would cost.
        empty: the collection holds no documents.
    """

    window_tokens: int
    pool_tokens: int | None
    tier: LoadCost | None
    corpus: PrefixFacts | None
    core: PrefixFacts | None = None
    corpus_problem: str | None = None
    empty: bool = False


def ruled(question: Question, deployment: Deployment) -> Decision | None:
    """What a rule decides before anything is priced; None where none does."""
    if question.conversation_mode is not None:
        mode = question.conversation_mode
        return Decision(mode=mode, reason=f"its conversation began with {mode.value}")
    if question.filtered and question.asked not in (Mode.CAG, Mode.HYBRID):
        reason = "filters or access groups are applied by retrieval"
        return Decision(mode=Mode.RAG, reason=reason)
    named = (
        (question.asked, "the request asks for it"),
        (question.pinned, "the collection is pinned"),
    )
    for wanted, why in named:
        if wanted is Mode.AUTO:
            return None
        if wanted is not None:
            return Decision(mode=wanted, reason=why)
    if deployment.empty:
        return Decision(mode=Mode.RAG, reason="the collection holds no documents")
    return None


def choose(
    learning: CollectionLearning,
    engine: EngineLearning,
    question: Question,
    deployment: Deployment,
    *,
    gate: Gate,
    rules: SwitchRules,
    at: float,
) -> Decision:
    """The mode by cost; moves the collection's standing. `ruled` said nothing before."""
    costs = priced(learning, engine, question, deployment, at=at)
    here = learning.standing.mode
    verdicts = {mode: gate(mode, here) for mode in DECIDABLE if mode is not here}
    allowed = {here} | {mode for mode, verdict in verdicts.items() if verdict.passes}
    moved = step(learning.standing, costs, allowed=allowed, rules=rules, at=at)
    learning.standing = moved.standing
    note = _gate_note(verdicts, moved.standing.mode, here, costs)
    return Decision(
        mode=moved.standing.mode,
        reason=f"{moved.reason}; {note}" if note else moved.reason,
        costs=costs,
        question_tokens=question.tokens,
        counted=True,
    )


def priced(
    learning: CollectionLearning,
    engine: EngineLearning,
    question: Question,
    deployment: Deployment,
    *,
    at: float,
) -> Mapping[Mode, ModeCost]:
    """What the query costs in each mode, by rules that can't be priced and by figures."""
    traffic = learning.traffic(at, engine)
    situation = Situation(
        window_tokens=deployment.window_tokens,
        pool_tokens=deployment.pool_tokens,
        question_tokens=question.tokens + round(learning.tail_tokens()),
        answer_tokens=question.answer_tokens,
        ttft=engine.ttft.model,
        rag=learning.rag(),
        tier=deployment.tier,
        corpus=deployment.corpus,
        core=deployment.core,
        traffic=traffic,
    )
    costs = dict(price(situation))
    if deployment.corpus_problem is not None:
        costs[Mode.CAG] = impossible(deployment.corpus_problem)
    if traffic.stale_share > _OFTEN_CHANGED and learning.stale.seen >= _LEAST_QUESTIONS:
        problem = (
            f"the documents change more often than they are asked: {traffic.stale_share:.0%} of "
            "the questions found them changed"
        )
        costs[Mode.CAG] = impossible(problem)
    return costs


def with_collection(decision: Decision, collection_id: str) -> Decision:
    """The decision, told of a collection."""
    return replace(decision, collection_id=collection_id)


def _gate_note(
    verdicts: Mapping[Mode, GateVerdict],
    chosen: Mode,
    here: Mode,
    costs: Mapping[Mode, ModeCost],
) -> str | None:
    """What the quality gate says of the switch, or of the one it keeps from happening."""
    if chosen in verdicts:
        return verdicts[chosen].note
    possible = [mode for mode in verdicts if costs[mode].possible]
    if not possible:
        return None
    nearest = min(possible, key=lambda mode: costs[mode].lasting_s)
    return verdicts[nearest].note
