"""Cases with several causes in one request."""

from dataclasses import replace

from bench.verdicts.cases import Case, Disturbance, Label, Question, Site
from bench.verdicts.singles import notes, some
from bench.verdicts.texts import Texts


def evicted_changed(texts: Texts) -> Case:
    """A short opening is gone, and documents behind it stand in another order."""
    first, last, left = _reordered(texts, long=False)
    return Case(
        kind="evicted + changed",
        first=[first],
        last=last,
        label=_mixed("changed", evicted=left, changed=None),
        between=Disturbance.FLUSH,
    )


def rounding_changed(texts: Texts) -> Case:
    first, last, left = _reordered(texts, long=True)
    return Case(
        kind="rounding + changed",
        first=[first],
        last=last,
        label=_mixed("changed", rounding=left - texts.chunked(left), changed=None),
        between=Disturbance.FLUSH,
    )


def unknown_changed(texts: Texts) -> Case:
    first, last, left = _reordered(texts, long=False)
    return Case(
        kind="unknown + changed",
        first=[first],
        last=last,
        label=_mixed("unknown", unknown=left, changed=None),
        site=Site.DEAF,
        between=Disturbance.DROP_AND_FLUSH,
    )


def evicted_isolated(texts: Texts) -> Case:
    first, last, left, others = _further_elsewhere(texts, long=False)
    return Case(
        kind="evicted + isolated",
        first=first,
        last=last,
        label=_mixed(None, evicted=left, isolated=others - left),
        between=Disturbance.FLUSH,
    )


def rounding_isolated(texts: Texts) -> Case:
    first, last, left, others = _further_elsewhere(texts, long=True)
    return Case(
        kind="rounding + isolated",
        first=first,
        last=last,
        label=_mixed(None, rounding=left - texts.chunked(left), isolated=others - left),
        between=Disturbance.FLUSH,
    )


def unknown_isolated(texts: Texts) -> Case:
    first, last, left, others = _further_elsewhere(texts, long=False)
    return Case(
        kind="unknown + isolated",
        first=first,
        last=last,
        label=_mixed("unknown", unknown=left, isolated=others - left),
        site=Site.DEAF,
        between=Disturbance.DROP_AND_FLUSH,
    )


def changed_isolated(texts: Texts, between: Disturbance = Disturbance.NONE) -> Case:
    """A document that only another salt had, before some that were here behind another one.

    The page in which one ends and the others begin has tokens of both kinds: how many count as what
    isn't determined by what is sent.
    """
    heading, kept = texts.unique(60), some(texts, texts.random.choice([1, 4]))
    new, old = texts.note(texts.random.choice([60, 120])), texts.note(60)
    here = notes(texts, heading, [old, *kept])
    there = notes(texts, heading, [new, *some(texts, 1)], collection=_other(texts))
    return Case(
        kind="changed + isolated",
        first=[here, there],
        last=notes(texts, heading, [new, *kept]),
        label=_mixed(
            "changed" if len(kept) > 1 else "changed|isolated", changed=None, isolated=None
        ),
        between=between,
    )


def rounding_changed_isolated(texts: Texts) -> Case:
    """Three: the rest of a chunk, another salt's document, and documents from behind another."""
    while True:
        case = changed_isolated(texts, Disturbance.FLUSH)
        left = texts.left(texts.ids(case.last), texts.ids(case.first[0]))
        if _fits(texts, left, long=True):
            break
    short = left - texts.chunked(left)
    label = _mixed(case.label.verdict, rounding=short, changed=None, isolated=None)
    return replace(case, kind="rounding + changed + isolated", label=label)


def _reordered(texts: Texts, *, long: bool) -> tuple[Question, Question, int]:
    """Two questions about the same documents in another order, and the pages they share."""
    while True:
        heading = texts.unique(texts.random.randint(70, 120) if long else 30)
        passages = some(texts, 4)
        first = notes(texts, heading, passages)
        last = notes(texts, heading, [*reversed(passages)])
        left = texts.left(texts.ids(last), texts.ids(first))
        if _fits(texts, left, long=long):
            return first, last, left


def _further_elsewhere(texts: Texts, *, long: bool) -> tuple[list[Question], Question, int, int]:
    """A question of whose prompt another salt had left more than its own; and both, in tokens."""
    while True:
        heading = texts.unique(texts.random.randint(70, 120) if long else 30)
        passages = some(texts, 1, texts.random.choice([20, 60, 120]))
        here = notes(texts, heading, some(texts, 1))
        there = notes(texts, heading, passages, collection=_other(texts))
        last = notes(texts, heading, passages)
        ids = texts.ids(last)
        left, others = texts.left(ids, texts.ids(here)), texts.left(ids, texts.ids(there))
        if _fits(texts, left, long=long) and others > left:
            return [here, there], last, left, others


def _fits(texts: Texts, left: int, *, long: bool) -> bool:
    """Whether the tiers have a part of it, but not all; or nothing, since it is too short."""
    chunked = texts.chunked(left)
    return 0 < chunked < left if long else chunked == 0 < left


def _other(texts: Texts) -> str:
    return texts.random.choice(list(texts.collections))


def _mixed(verdict: str | None, **lost: int | None) -> Label:
    """Reasons with their tokens; where all are known, so is the verdict.

    Of two that cost the same, either may be the verdict.
    """
    known = {reason: tokens for reason, tokens in lost.items() if tokens is not None}
    if verdict is None:
        most = max(known.values())
        verdict = "|".join(reason for reason in known if known[reason] == most)
    return Label(verdict=verdict, reasons=frozenset(lost), tokens=known)
