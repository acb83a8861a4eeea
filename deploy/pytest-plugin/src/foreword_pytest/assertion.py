"""`assert_prefix_stable`: the one call of this package."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from foreword_pytest.causes import likely_cause
from foreword_pytest.compare import Divergence, common_length, divergence
from foreword_pytest.errors import NothingToCompareError, PrefixUnstableError
from foreword_pytest.excerpt import excerpt_of, line_and_column
from foreword_pytest.prompt import FlatPrompt, flatten
from foreword_pytest.runs import Render, Run, calls, fresh_runs
from foreword_pytest.surroundings import Clock, surroundings
from foreword_pytest.until import Until, shared_part

Encode = Callable[[str], Sequence[int]]


def assert_prefix_stable(
    prompts: Render | Sequence[object],
    *,
    until: Until | str = Until.LAST_USER,
    min_shared: int | None = None,
    runs: int = 3,
    processes: int | None = None,
    clock: Clock = Clock.MONTHS,
    encode: Encode | None = None,
    timeout_s: float = 120.0,
) -> None:
    """Asserts that prompts begin with the same text, as far as they should.

    A callable is called `runs` times here and once in each of four fresh processes that differ in
    hash seed, time zone, locale, clock and the order of directory listings. Each call must give the
    same prompt, up to `until`. Several prompts (texts, token ids, message lists, request bodies)
    are compared with each other; of two turns of a conversation the shorter history counts.

    Args:
        until: the end of what is shared: the last user turn, or an `Until`, or a text that stands
            there in every prompt.
        min_shared: instead of `until`, how much must be shared at least: characters, or tokens
            where prompts are token ids or `encode` is given.
        processes: how many fresh processes; 0 for none. The default is 4 where the callable can be
            imported by another process (no lambda, no closure), else none; a number insists.
        clock: how far the fresh processes' clocks are apart. `Clock.HOURS` allows a date in the
            shared part, which makes the cache cold once a day.
        encode: text to token ids, so that a failure says which token it is.
        timeout_s: how long a fresh process may take.

    Raises:
        PrefixUnstableError: an AssertionError that shows where they part, and the likely cause.
        NothingToCompareError: nothing would be shared, so that nothing would be shown.
        RenderError: the callable fails in a fresh process.
        TypeError: something isn't a prompt.
    """
    __tracebackhide__ = True
    check = _Check(until=until, min_shared=min_shared, encode=encode, turns=not callable(prompts))
    if callable(prompts):
        here = calls(prompts, max(runs, 1))
        fresh = _fresh(prompts, processes, clock, timeout_s, alone=runs < 2)
        pairs = [*pairwise(here), *pairwise(fresh)]
        # Hours apart, the fresh processes share a date with each other but not with this one.
        if fresh and clock is not Clock.HOURS:
            pairs.append((here[0], fresh[0]))
    elif isinstance(prompts, str | bytes | Mapping):
        raise TypeError("one prompt alone shows nothing: give a list of prompts, or a callable")
    else:
        made = [Run(name=f"prompt {n}", prompt=flatten(p)) for n, p in enumerate(prompts, 1)]
        pairs = [*pairwise(made), *((made[0], other) for other in made[2:])]
    if not pairs:
        raise NothingToCompareError("one prompt alone shows nothing: give two or more")
    for first, second in pairs:
        failure = check.failure(first, second)
        if failure is not None:
            raise failure


def _fresh(
    render: Render, processes: int | None, clock: Clock, timeout_s: float, *, alone: bool
) -> list[Run]:
    count = 4 if processes is None else processes
    made = fresh_runs(render, surroundings(count, clock), timeout_s=timeout_s) if count else []
    if made is None and (processes is not None or alone):
        raise NothingToCompareError(
            "the callable can't be handed to a fresh process: make it a function of a module (or a "
            "functools.partial of one), or pass processes=0"
        )
    return made or []


class _Check:
    """What is asked of each pair of prompts."""

    def __init__(
        self, *, until: Until | str, min_shared: int | None, encode: Encode | None, turns: bool
    ) -> None:
        self._until = until
        self._min_shared = min_shared
        self._encode = encode
        self._turns = turns

    def failure(self, first: Run, second: Run) -> PrefixUnstableError | None:
        """The error to raise for two prompts, if any."""
        if self._min_shared is not None:
            found = divergence(first.prompt, second.prompt, self._min_shared)
            if found is None or self._shared(first, second, found) >= self._min_shared:
                return None
            return self._error(first, second, found)
        one, other = self._cut(first), self._cut(second)
        if self._turns and self._until is Until.LAST_USER:
            parts = min(len(one.parts), len(other.parts))
            one, other = (replace(cut, parts=cut.parts[:parts]) for cut in (one, other))
        if not one.text and not other.text:
            raise NothingToCompareError(
                f"nothing stands before {_name(self._until)}, so nothing would be compared; pass "
                "until=Until.END, a text to stop at, or min_shared"
            )
        found = divergence(one, other, len(one.text))
        return None if found is None else self._error(first, second, found)

    def _cut(self, run: Run) -> FlatPrompt:
        cut = shared_part(run.prompt, self._until)
        if cut is None:
            raise NothingToCompareError(f"{_name(self._until)} is not in {run.name}")
        return cut

    def _shared(self, first: Run, second: Run, found: Divergence) -> int:
        if self._encode is None or first.prompt.unit == "token":
            return found.shared
        ids, others = self._encode(first.prompt.text), self._encode(second.prompt.text)
        return common_length(list(ids), list(others))

    def _error(self, first: Run, second: Run, found: Divergence) -> PrefixUnstableError:
        cause = likely_cause(first.prompt, second.prompt, found)
        lines = [
            f"the prefix is not stable: {first.label} and {second.label} part in {found.where}"
            f"{_place(first.prompt, found)}, {self._shares(first, second, found)}",
            *_both(first, second, found),
            f"  likely cause: {cause.value}",
            f"  what to do: {cause.advice}",
        ]
        return PrefixUnstableError(
            "\n".join(lines),
            first=first.name,
            second=second.name,
            divergence=found,
            cause=cause,
        )

    def _shares(self, first: Run, second: Run, found: Divergence) -> str:
        unit = first.prompt.unit
        if self._encode is not None and unit != "token":
            shared = self._shared(first, second, found)
            if self._min_shared is not None:
                return f"after {shared:,} of {found.of:,} tokens"
            total = len(self._encode(first.prompt.text[: found.of]))
            return f"after about {shared:,} of {total:,} tokens that should be shared"
        return f"after {found.shared:,} of {found.of:,} {unit}s that should be shared"


def _name(until: Until | str) -> str:
    return until.value if isinstance(until, Until) else repr(until)


def _place(prompt: FlatPrompt, found: Divergence) -> str:
    if prompt.unit == "token" or not found.first.text:
        return ""
    line, column = line_and_column(found.first.text, found.offset)
    return f", line {line}, column {column}"


def _both(first: Run, second: Run, found: Divergence) -> Iterator[str]:
    width = max(len(first.name), len(second.name))
    caret = 0
    for run, part in ((first, found.first), (second, found.second)):
        shown = excerpt_of(run.prompt, part.text, found.offset)
        caret = shown.caret
        yield f"  {run.name:<{width}}  {shown.text}"
    yield f"  {'':<{width}}  {' ' * caret}^"
