"""Which documents form a hybrid's core: often found, unchanged for long, within a budget. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreDocument:
    """A document as a candidate.

    Attributes:
        position: its rank in the collection's order.
        found: weight of its passages among those found lately.
        unchanged_s: seconds since it was added.
    """

    id: str
    position: int
    tokens: int
    found: float
    unchanged_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The chosen documents' ids, in the order of the prompt, and the share of finds they cover."""

    ids: tuple[str, ...] = ()
    tokens: int = 0
    covers: float = 0.0


def choose_core(
    documents: Sequence[CoreDocument],
    *,
    budget_tokens: int,
    current: Sequence[str] = (),
    least_unchanged_s: float = 3600.0,
    least_gain: float = 0.2,
) -> Core:
    """The core that covers most of what is found.

    It only grows at its end: what is in it stays, in its order, as long as every document of it is
    still there, so that its KV stays a prefix. It is made anew only when a new choice covers more
    by `least_gain`, or a document of it is gone.
    """
    by_id = {document.id: document for document in documents}
    total = sum(document.found for document in documents)
    if total <= 0 or budget_tokens <= 0:
        return Core()
    settled = [each for each in documents if each.unchanged_s >= least_unchanged_s]
    fresh = _filled((), settled, budget_tokens)
    kept = [by_id[each] for each in current if each in by_id]
    whole = len(kept) == len(current) and sum(d.tokens for d in kept) <= budget_tokens
    grown = _filled(kept, settled, budget_tokens) if kept and whole else []
    chosen = fresh
    if grown and _covers(fresh, total) - _covers(grown, total) < least_gain:
        chosen = grown
    elif not grown:
        chosen = sorted(fresh, key=lambda document: document.position)
    return Core(
        ids=tuple(document.id for document in chosen),
        tokens=sum(document.tokens for document in chosen),
        covers=_covers(chosen, total),
    )


def _filled(
    kept: Sequence[CoreDocument], documents: Sequence[CoreDocument], budget_tokens: int
) -> list[CoreDocument]:
    """`kept`, then the documents that cover most for their tokens, while the budget lasts."""
    chosen = list(kept)
    taken = {document.id for document in kept}
    left = budget_tokens - sum(document.tokens for document in kept)
    for document in sorted(documents, key=_worth):
        if document.id in taken or document.found <= 0 or document.tokens > left:
            continue
        chosen.append(document)
        left -= document.tokens
    return chosen


def _worth(document: CoreDocument) -> tuple[float, int, str]:
    return -document.found / max(document.tokens, 1), document.position, document.id


def _covers(documents: Sequence[CoreDocument], total: float) -> float:
    return sum(document.found for document in documents) / total
