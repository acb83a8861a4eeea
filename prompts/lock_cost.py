"""Sentences about the lock, for people: what is wrong, what it costs, what to do."""

from dataclasses import dataclass

from prompts.lock_check import LockFault, LockProblem, Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What is known about a template's requests; None where it isn't.

    `cached_tokens` is the mean of one request. `estimated` says that the prefill rate was derived
    from times to first token, which holds more than prefill.
    """

    requests_per_s: float | None = None
    prefill_tok_s: float | None = None
    cached_tokens: float | None = None
    estimated: bool = False


REMEDIES = {
    LockFault.CHANGED: "raise its version, or take the change back",
    LockFault.REUSED: "give it a version that was never used",
    LockFault.UNRECORDED: "run `foreword lock`",
    LockFault.OUTDATED: "run `foreword lock`",
    LockFault.REMOVED: "run `foreword lock`",
    LockFault.MISCOUNTED: "run `foreword lock`",
    LockFault.TOKENIZER: "run `foreword lock`, or name the right one with --tokenizer",
}


def change_sentence(problem: LockProblem, traffic: Traffic) -> str:
    """What disagrees, and what it costs; `REMEDIES` say what to do."""
    name = problem.reference
    match problem.fault:
        case LockFault.CHANGED:
            where = _where(problem.loss)
            return f"{name} changed without a new version{where}, which {_cost(problem, traffic)}"
        case LockFault.REUSED:
            return f"{name} was retired with another text"
        case LockFault.UNRECORDED if problem.since is not None:
            return f"{name} is new; after {problem.since} it {_cost(problem, traffic)}"
        case LockFault.UNRECORDED:
            return f"{name} is new"
        case LockFault.OUTDATED:
            return f"{name} is not as the lock has it"
        case LockFault.REMOVED:
            return f"{name} has no template any more"
        case LockFault.MISCOUNTED:
            return f"{name} has other token counts than the lock says"
        case LockFault.TOKENIZER:
            return "the token counts are of another tokenizer, or of none"


def lost_tokens(lost: Loss, traffic: Traffic) -> int | None:
    """Tokens that each request recomputes, as well as it is known.

    What the ledger saw re-used counts the documents and turns behind the scaffold too.
    """
    if lost.segment is None or lost.only_turn:
        return 0
    if traffic.cached_tokens is not None and lost.kept_tokens is not None:
        return max(0, round(traffic.cached_tokens) - lost.kept_tokens)
    return lost.scaffold_tokens


def gpu_s_per_s(tokens: int, traffic: Traffic) -> float | None:
    """Seconds of prefill that the lost tokens cost in each second; None if a rate isn't known."""
    if traffic.requests_per_s is None or not traffic.prefill_tok_s:
        return None
    return tokens * traffic.requests_per_s / traffic.prefill_tok_s


def _where(lost: Loss | None) -> str:
    if lost is None or lost.segment is None:
        return ""
    return " (the tools)" if lost.segment == "tools" else f" (segment {lost.segment!r})"


def _cost(problem: LockProblem, traffic: Traffic) -> str:
    lost = problem.loss
    if lost is None or lost.segment is None:
        return "makes the same bytes, so that no cached token is lost"
    if lost.only_turn:
        return "changes only what is new in every turn, so that no cached token is lost"
    tokens = lost_tokens(lost, traffic)
    name = (problem.reference or "").rpartition("@")[0]
    if tokens is None:
        return f"invalidates every request of {name} from there on (nothing was counted)"
    if lost.scaffold_tokens == tokens == 0:
        return f"keeps the scaffold of {name} but invalidates the text that follows it"
    return f"invalidates {tokens:,} tokens for every request of {name}{_rate(tokens, traffic)}"


def _rate(tokens: int, traffic: Traffic) -> str:
    seconds = gpu_s_per_s(tokens, traffic)
    if seconds is None:
        return ""
    about = "about " if traffic.estimated else ""
    return (
        f"; at {_number(traffic.requests_per_s)} requests/s and {about}"
        f"{_number(traffic.prefill_tok_s)} tok/s of prefill, {_number(seconds)} s of GPU per "
        "second until warm"
    )


def _number(value: float | None) -> str:
    """Three digits that say something, and whole numbers above."""
    assert value is not None
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"
