"""What differs between the lock and the templates as they are, and what to write instead."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile, zip_longest

from prompts.lock import Lock, LockedSegment, LockedTemplate
from prompts.segments import Volatility


class LockFault(StrEnum):
    """Why the lock and the templates disagree."""

    CHANGED = "changed"
    REUSED = "reused"
    UNRECORDED = "unrecorded"
    OUTDATED = "outdated"
    REMOVED = "removed"
    MISCOUNTED = "miscounted"
    TOKENIZER = "tokenizer"

    @property
    def needs_version(self) -> bool:
        """Whether recording it again is wrong: another version is what it takes."""
        return self in (LockFault.CHANGED, LockFault.REUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What requests recompute because of a change.

    `segment` is the first one whose bytes change (`tools` for the tools in front of all), None
    where none does. `kept_tokens` before it stay cached, in full pages; `scaffold_tokens` behind
    them, to the end of the scaffold, are lost. None where nothing was counted, or where it depends
    on values. `only_turn` says that nothing before this turn's own text changes.
    """

    segment: str | None = None
    kept_tokens: int | None = None
    scaffold_tokens: int | None = None
    only_turn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LockProblem:
    """One disagreement; `reference` is None where it is about the whole lock.

    `since` is the reference that the loss is against: the same, or the version before.
    """

    fault: LockFault
    reference: str | None = None
    since: str | None = None
    loss: Loss | None = None


def check_lock(recorded: Lock, now: Lock, *, page_size: int) -> tuple[LockProblem, ...]:
    """All disagreements; none means that the lock is current.

    Counts are compared where both were made with one tokenizer.
    """
    problems = [*_whole(recorded, now)]
    counted = now.tokenizer is not None and now.tokenizer == recorded.tokenizer
    for template in now.templates.values():
        problems += _template(recorded, template, counted=counted, page_size=page_size)
    gone = sorted(recorded.templates.keys() - now.templates.keys())
    problems += [LockProblem(fault=LockFault.REMOVED, reference=reference) for reference in gone]
    return tuple(problems)


def check_lock_against(
    base: Lock, recorded: Lock, now: Lock, *, page_size: int
) -> tuple[LockProblem, ...]:
    """As `check_lock`, where versions are only final once the lock of `base` holds them.

    `base` is the lock that others already build on, say that of the main branch: recording a
    change again, as `foreword lock --force` does, doesn't hide it from this.
    """
    from_base = check_lock(base, now, page_size=page_size)
    final = [problem for problem in from_base if problem.fault.needs_version]
    named = {problem.reference for problem in final}
    drafts = [
        replace(problem, fault=LockFault.OUTDATED) if problem.fault.needs_version else problem
        for problem in check_lock(recorded, now, page_size=page_size)
        if problem.reference not in named
    ]
    return (*final, *drafts)


def next_lock(recorded: Lock, now: Lock) -> Lock:
    """The lock to write: the templates as they are, with what only the old one knows.

    That is the versions that are gone, and counts where nothing counts now.
    """
    gone = recorded.templates.keys() - now.templates.keys()
    retired = dict(recorded.retired) | {name: recorded.templates[name].body for name in gone}
    templates = dict(now.templates)
    for reference, old in recorded.templates.items() if now.tokenizer is None else ():
        template = templates.get(reference)
        if template is not None and template.body == old.body:
            templates[reference] = _with_counts(template, old)
    return Lock(
        tokenizer=now.tokenizer or recorded.tokenizer,
        templates=templates,
        retired={name: body for name, body in retired.items() if name not in now.templates},
    )


def loss(old: LockedTemplate, new: LockedTemplate, *, page_size: int) -> Loss:
    """What requests lose when the second takes the place of the first."""
    if old.tools != new.tools:
        return Loss(segment="tools", kept_tokens=0, scaffold_tokens=old.scaffold_tokens)
    pairs = list(zip_longest(old.segments, new.segments))
    same = sum(1 for _ in takewhile(_same_bytes, pairs))
    if same == len(pairs):
        return Loss()
    rest = [s for pair in pairs[same:] for s in reversed(pair) if s is not None]
    if all(segment.volatility is Volatility.TURN for segment in rest):
        return Loss(segment=rest[0].id, kept_tokens=None, scaffold_tokens=0, only_turn=True)
    return _counted_loss(old, same, rest[0].id, page_size=page_size)


def _counted_loss(old: LockedTemplate, same: int, changed: str, *, page_size: int) -> Loss:
    """The loss where the first `same` segments keep their bytes."""
    leading = old.segments[:same]
    static = [*takewhile(lambda segment: segment.volatility is Volatility.STATIC, leading)]
    counts = [segment.tokens for segment in static if segment.tokens is not None]
    if old.scaffold_tokens is None or len(counts) < len(static):
        return Loss(segment=changed)
    kept = min(sum(counts), old.scaffold_tokens) // page_size * page_size
    if len(static) < len(leading):
        return Loss(segment=changed, scaffold_tokens=0)
    behind = same < len(old.segments) and old.segments[same].volatility is not Volatility.STATIC
    return Loss(
        segment=changed,
        kept_tokens=kept,
        scaffold_tokens=0 if behind else max(0, old.scaffold_tokens - kept),
    )


def _same_bytes(pair: tuple[LockedSegment | None, LockedSegment | None]) -> bool:
    old, new = pair
    return old is not None and new is not None and old.digest == new.digest


def _whole(recorded: Lock, now: Lock) -> Iterator[LockProblem]:
    if recorded.templates and now.tokenizer not in (None, recorded.tokenizer):
        yield LockProblem(fault=LockFault.TOKENIZER)


def _template(
    recorded: Lock, template: LockedTemplate, *, counted: bool, page_size: int
) -> Iterator[LockProblem]:
    reference = template.reference
    old = recorded.templates.get(reference)
    if old is None:
        yield _unrecorded(recorded, template, page_size=page_size)
    elif old.body != template.body:
        lost = loss(old, template, page_size=page_size)
        yield LockProblem(fault=LockFault.CHANGED, reference=reference, since=reference, loss=lost)
    elif old != _with_counts(template, old):
        yield LockProblem(fault=LockFault.OUTDATED, reference=reference)
    elif counted and old != template:
        yield LockProblem(fault=LockFault.MISCOUNTED, reference=reference)


def _unrecorded(recorded: Lock, template: LockedTemplate, *, page_size: int) -> LockProblem:
    reference = template.reference
    if recorded.retired.get(reference, template.body) != template.body:
        return LockProblem(fault=LockFault.REUSED, reference=reference)
    older = [
        other
        for other in recorded.templates.values()
        if other.name == template.name and other.version < template.version
    ]
    if not older:
        return LockProblem(fault=LockFault.UNRECORDED, reference=reference)
    before = max(older, key=lambda other: other.version)
    lost = loss(before, template, page_size=page_size)
    return LockProblem(
        fault=LockFault.UNRECORDED, reference=reference, since=before.reference, loss=lost
    )


def _with_counts(template: LockedTemplate, counts: LockedTemplate) -> LockedTemplate:
    """The first, with the token counts of the second, which has the same body."""
    pairs = zip(template.segments, counts.segments, strict=False)
    return replace(
        template,
        scaffold_tokens=counts.scaffold_tokens,
        token_digest=counts.token_digest,
        segments=tuple(replace(segment, tokens=counted.tokens) for segment, counted in pairs),
    )
