"""What was said of each request, against what was done to it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.verdicts.cases import JSONObject, Label

_SAME = ("prompt_tokens", "cached_tokens", "ideal_tokens", "cached_by_tier", "verdict", "cause")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A labelled request: its label, its ledger row and its response's block."""

    kind: str
    label: Label
    row: JSONObject
    block: JSONObject

    @property
    def problem(self) -> str | None:
        """What was said wrongly; None: it was named."""
        label, row = self.label, self.row
        lost = row["lost"] or {}
        if row["verdict"] not in label.verdict.split("|"):
            return f"{row['verdict']} instead of {label.verdict}, {lost}"
        if set(lost) != label.reasons:
            return f"lost {lost} instead of {sorted(label.reasons)}"
        wrong = {reason: n for reason, n in label.tokens.items() if lost.get(reason) != n}
        if wrong:
            return f"lost {lost}, and it was {wrong}"
        if label.causes is not None and row["cause"] not in label.causes:
            return f"cause {row['cause']} instead of {sorted(label.causes)}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A whole run.

    `clean` are the rows of traffic in which nothing is wrong; `answers` the blocks and rows of all
    requests, set-up and fillers included. The predictions of some are not counted, whose ids are
    `unforeseeable`: in a burst the engine chooses whether a request waits for the others or
    computes the same again, and of events that were dropped a gateway may not know yet. The
    `openings` are the first requests of a salt, by id: others may have left their scaffold, which
    a client may be told.
    """

    cases: Sequence[Scored]
    clean: Sequence[JSONObject]
    answers: Sequence[tuple[JSONObject, JSONObject]]
    unforeseeable: frozenset[str] = frozenset()
    openings: frozenset[str] = frozenset()

    def __add__(self, other: "Score") -> "Score":
        return Score(
            cases=[*self.cases, *other.cases],
            clean=[*self.clean, *other.clean],
            answers=[*self.answers, *other.answers],
            unforeseeable=self.unforeseeable | other.unforeseeable,
            openings=self.openings | other.openings,
        )

    @property
    def singles(self) -> list[Scored]:
        """Cases with one cause, or none."""
        return [case for case in self.cases if not case.label.is_mixed]

    @property
    def mixed(self) -> list[Scored]:
        """Cases with several."""
        return [case for case in self.cases if case.label.is_mixed]

    @property
    def false_alarms(self) -> list[JSONObject]:
        """Clean requests of which something is said to be lost."""
        return [row for row in self.clean if row["lost"] or row["verdict"] not in ("hit", "cold")]

    @property
    def wrongly_unknown(self) -> list[Scored]:
        """`unknown` where all evidence was there, or something else where it was not."""
        return [
            case
            for case in self.cases
            if (case.row["verdict"] == "unknown") != (case.label.verdict == "unknown")
        ]

    @property
    def predictions(self) -> list[tuple[int, int]]:
        """Predicted and reported tokens, where both are known."""
        rows = [row for _, row in self.answers if row["request_id"] not in self.unforeseeable]
        pairs = [(row["predicted_tokens"], row["cached_tokens"]) for row in rows]
        return [(one, other) for one, other in pairs if one is not None and other is not None]

    @property
    def inexact(self) -> list[JSONObject]:
        """Rows whose tokens don't add up."""
        return [row for _, row in self.answers if not _adds_up(row)]

    @property
    def unequal(self) -> list[str]:
        """Responses that say something else than the ledger."""
        return [
            problem
            for block, row in self.answers
            for problem in _unequal(block, row, is_opening=row["request_id"] in self.openings)
        ]


def table(score: Score) -> str:
    """Causes: injected, named, missed; and the figures of the whole run."""
    kinds = Counter(case.kind for case in score.cases)
    missed = Counter(case.kind for case in score.cases if case.problem is not None)
    lines = [f"{'cause':34} {'injected':>8} {'named':>6} {'missed':>6}"]
    lines += [
        f"{kind:34} {count:8} {count - missed[kind]:6} {missed[kind]:6}"
        for kind, count in sorted(kinds.items())
    ]
    wrong = [f"missed: {case.kind}: {case.problem}" for case in score.cases if case.problem]
    alarms = [f"false alarm: {row['verdict']}, {row['lost']}" for row in score.false_alarms]
    guesses = [f"predicted {p} for {c} tokens" for p, c in score.predictions if p != c]
    return "\n".join([*lines, "", *_figures(score), *wrong, *alarms, *guesses])


def _figures(score: Score) -> Iterator[str]:
    singles, mixed, predictions = score.singles, score.mixed, score.predictions
    equal = sum(1 for one, other in predictions if one == other)
    predicted, cached = sum(p for p, _ in predictions), sum(c for _, c in predictions)
    yield f"single causes: {_named(singles)} of {len(singles)} named"
    yield f"mixed causes: {_named(mixed)} of {len(mixed)} named"
    yield f"clean requests: {len(score.clean)}, false alarms: {len(score.false_alarms)}"
    yield f"`unknown` where it shouldn't be, or the reverse: {len(score.wrongly_unknown)}"
    yield f"predictions: {equal} of {len(predictions)} equal, {predicted} tokens for {cached}"
    yield f"requests: {len(score.answers)}, sums that don't add up: {len(score.inexact)}"
    yield f"responses unlike their ledger row: {len(score.unequal)}"


def _named(cases: Sequence[Scored]) -> int:
    return sum(1 for case in cases if case.problem is None)


def _adds_up(row: JSONObject) -> bool:
    if row["cached_tokens"] is None:
        return not row["lost"] and row["new_tokens"] is None
    lost = sum(row["lost"].values())
    return bool(
        row["prompt_tokens"] == row["cached_tokens"] + lost + row["new_tokens"]
        and row["cached_tokens"] <= row["ideal_tokens"] < row["prompt_tokens"]
        and row["new_tokens"] >= 1
    )


def _unequal(block: JSONObject, row: JSONObject, *, is_opening: bool) -> Iterator[str]:
    """Differences, but for what a client may not see: what other salts had left."""
    lost = {reason: n for reason, n in (row["lost"] or {}).items() if reason != "isolated"}
    isolated = lost != (row["lost"] or {})
    for name in _SAME:
        if isolated and name in ("verdict", "cause"):
            continue
        if block[name] != row[name]:
            yield f"{row['request_id']}: {name} {block[name]} and {row[name]}"
    if isolated and row["verdict"] != "unknown":
        usual = "hit" if row["ideal_tokens"] else "cold"
        shown = max(lost, key=lost.__getitem__) if lost else usual
        is_scaffold = is_opening and block["verdict"] == row["verdict"] == "isolated"
        if block["verdict"] != shown and not is_scaffold:
            yield f"{row['request_id']}: shown as {block['verdict']} instead of {shown}"
