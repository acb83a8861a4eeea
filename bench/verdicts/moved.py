"""Cases in which another replica has what is needed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from bench.verdicts.cases import Disturbance, Label
from bench.verdicts.replicas import HERE, THERE, Replicas, Step
from bench.verdicts.score import Score, Scored
from bench.verdicts.singles import loses, notes, short, some
from bench.verdicts.texts import Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedCase:
    """Requests to both replicas and what has to be said of the last one."""

    kind: str
    steps: Sequence[Step]
    label: Label


Maker = Callable[[Texts], MovedCase]


def moved(texts: Texts) -> MovedCase:
    """All of it is elsewhere, or a part."""
    heading, passages = texts.unique(60), some(texts, 2)
    part = notes(texts, heading, passages[:1])
    whole, last = notes(texts, heading, passages), notes(texts, heading, passages)
    ids = texts.ids(last)
    left = texts.left(ids, texts.ids(whole))
    here: list[Step] = []
    if texts.random.random() < 0.5:
        here = [(HERE, part)]
        left -= texts.left(ids, texts.ids(part))
    return MovedCase(
        kind="moved",
        steps=[*here, (THERE, whole), (HERE, last)],
        label=loses("moved", left, "other_replica"),
    )


def moved_changed(texts: Texts) -> MovedCase:
    heading, passages = texts.unique(60), some(texts, 4)
    first, last = notes(texts, heading, passages), notes(texts, heading, passages[::-1])
    left = texts.left(texts.ids(last), texts.ids(first))
    return MovedCase(
        kind="moved + changed",
        steps=[(THERE, first), (HERE, last)],
        label=_mixed("changed", {"moved": left}, "changed"),
    )


def moved_isolated(texts: Texts) -> MovedCase:
    heading, passages = texts.unique(40), some(texts, 1, texts.random.choice([20, 120]))
    own = notes(texts, heading, some(texts, 1))
    other = notes(texts, heading, passages, collection=next(iter(texts.collections)))
    last = notes(texts, heading, passages)
    ids = texts.ids(last)
    left, others = texts.left(ids, texts.ids(own)), texts.left(ids, texts.ids(other))
    return MovedCase(
        kind="moved + isolated",
        steps=[(THERE, own), (texts.random.choice([HERE, THERE]), other), (HERE, last)],
        label=_mixed(None, {"moved": left, "isolated": others - left}),
    )


def evicted_moved(texts: Texts) -> MovedCase:
    """The opening was here until a flush; since then another replica has got all."""
    own, _, _ = short(texts)
    heading, passages = own.variables["heading"], some(texts, 2)
    whole, last = notes(texts, heading, passages), notes(texts, heading, passages)
    ids = texts.ids(last)
    here, left = texts.left(ids, texts.ids(own)), texts.left(ids, texts.ids(whole))
    return MovedCase(
        kind="evicted + moved",
        steps=[(HERE, own), Disturbance.FLUSH, (THERE, whole), (HERE, last)],
        label=_mixed(None, {"evicted": here, "moved": left - here}),
    )


MOVED: Mapping[Maker, int] = {moved: 12, moved_changed: 5, moved_isolated: 5, evicted_moved: 4}


def drive_moved(texts: Texts, engines: Mapping[str, str], *, share: float = 1.0) -> Score:
    """A `share` of the cases of each kind, in random order.

    Raises:
        httpx.HTTPError: an engine doesn't answer.
    """
    cases = [make(texts) for make, times in MOVED.items() for _ in range(ceil(times * share))]
    texts.random.shuffle(cases)
    with Replicas(texts, engines) as replicas:
        told = [replicas.run(case.steps) for case in cases]
    scored = [
        Scored(kind=case.kind, label=case.label, row=answers[-1][1], block=answers[-1][0])
        for case, answers in zip(cases, told, strict=True)
    ]
    return Score(cases=scored, clean=(), answers=[pair for answers in told for pair in answers])


def _mixed(verdict: str | None, tokens: Mapping[str, int], *further: str) -> Label:
    most = max(tokens.values())
    likely = "|".join(reason for reason, count in tokens.items() if count == most)
    return Label(
        verdict=verdict or likely, reasons=frozenset((*tokens, *further)), tokens=dict(tokens)
    )
