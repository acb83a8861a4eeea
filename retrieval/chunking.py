"""A document cut into passages, by structure first and by tokens where structure is too coarse.

Pure: the same document, tokenizer and settings give the same passages, whatever is asked of them
later. Passages don't overlap; together they hold every character that isn't white space, so a
document can be put together again and no token is paid for twice.

Each word is encoded once; sums over words settle most questions, and near the bound a passage is
encoded to be sure (`retrieval.gauge`). So the time grows with the text's length only.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from retrieval.documents import Block, BlockKind, ParsedDocument, Passage, content_id
from retrieval.gauge import TokenGauge

# A UTF-8 character is at most 4 byte-level tokens; below this a single character might not fit.
_SMALLEST_MAX_TOKENS = 16
# No tokenizer in use packs more characters into a token on running text: no passage has more.
_CHARS_PER_TOKEN = 16
# Estimates that are off the bound by more than one part of so many are believed.
_TRUST = 16
_STEP_CHARS = 16
_NO_SPACE = re.compile(r"\S")
# Where a passage may end, behind the match; a match is no longer than two characters.
_EMPTY_LINE = re.compile(r"(?<=\n)\n")
_LINE = re.compile(r"\n")
_SENTENCE = re.compile("[.!?\u2026\u3002\uff01\uff1f]\\s")
_WORD = re.compile(r"\s")
_BOUNDARY_CHARS = 2
_SENTENCES_FIRST = (_SENTENCE, _LINE, _WORD)
_LINES_FIRST = (_EMPTY_LINE, _LINE, _SENTENCE, _WORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkingSettings:
    """How large passages are.

    Attributes:
        max_tokens: no passage has more, counted by the injected tokenizer.
        min_tokens: a passage that would have fewer takes in the next section as well,
            as long as both fit. None is a quarter of max_tokens.

    Raises:
        ValueError: max_tokens below 16, or min_tokens not between 0 and max_tokens.
    """

    max_tokens: int = 192
    min_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < _SMALLEST_MAX_TOKENS:
            raise ValueError(f"max_tokens is {self.max_tokens}; it must be 16 or more")
        if not 0 <= self.least_tokens <= self.max_tokens:
            raise ValueError(f"min_tokens is {self.min_tokens}; it must be 0 to max_tokens")

    @property
    def least_tokens(self) -> int:
        """`min_tokens`, or what stands for it."""
        return self.max_tokens // 4 if self.min_tokens is None else self.min_tokens


@dataclass(frozen=True, slots=True)
class _Unit:
    """A span that fits into one passage, and the structure it stands in.

    Attributes:
        is_placed: its path is the place of this unit alone, not of what follows as well.
    """

    start: int
    end: int
    page: int | None
    heading_path: tuple[str, ...]
    opens_section: bool
    is_placed: bool


def chunk(
    document: ParsedDocument,
    *,
    count_tokens: Callable[[str], int],
    settings: ChunkingSettings | None = None,
) -> list[Passage]:
    """The passages of a document, in reading order.

    Args:
        count_tokens: tokens of a text on its own, special tokens not counted.
    """
    sizes = settings or ChunkingSettings()
    cutter = _Cutter(document.text, count_tokens, sizes)
    passages = _passages(document, cutter)
    if any(passage.token_count > sizes.max_tokens for passage in passages):
        # A tokenizer for which the whole has far more tokens than its pieces: nothing is believed.
        passages = _passages(document, cutter.doubting())
    return passages


def _passages(document: ParsedDocument, cutter: "_Cutter") -> list[Passage]:
    groups = cutter.pack(cutter.units(document.blocks))
    return [_passage(document, position, group, cutter) for position, group in enumerate(groups)]


def _passage(
    document: ParsedDocument,
    position: int,
    group: list[_Unit],
    cutter: "_Cutter",
) -> Passage:
    first, last = group[0], group[-1]
    text = document.text[first.start : last.end]
    return Passage(
        id=content_id("chunk", (document.id, f"{first.start}-{last.end}", text)),
        position=position,
        start=first.start,
        end=last.end,
        text=text,
        token_count=cutter.count(first.start, last.end),
        page=first.page,
        heading_path=_path_of(group),
    )


def _path_of(group: list[_Unit]) -> tuple[str, ...]:
    """What all units stand under if each has its own place; else the first's headings."""
    path = group[0].heading_path
    for unit in group[1:]:
        if unit.is_placed:
            both = zip(path, unit.heading_path, strict=False)
            path = tuple(mine for mine, _ in takewhile(lambda pair: pair[0] == pair[1], both))
    return path


class _Cutter:
    """The steps of chunking that need the text, the tokenizer and the settings."""

    def __init__(
        self,
        text: str,
        count_tokens: Callable[[str], int],
        settings: ChunkingSettings,
        *,
        gauge: TokenGauge | None = None,
        believes: bool = True,
    ) -> None:
        self._text = text
        self._count_tokens = count_tokens
        self._settings = settings
        self._gauge = gauge or TokenGauge(text, count_tokens)
        self._believes = believes
        self._counts: dict[tuple[int, int], int] = {}
        self._most_chars = settings.max_tokens * _CHARS_PER_TOKEN

    def doubting(self) -> "_Cutter":
        """One that encodes whatever it wants to know the count of."""
        return _Cutter(
            self._text, self._count_tokens, self._settings, gauge=self._gauge, believes=False
        )

    def units(self, blocks: tuple[Block, ...]) -> Iterator[_Unit]:
        """Each block as units that fit, with the headings above it.

        Headings go with the block that follows them, so that none stands alone at an end.
        """
        path: list[tuple[int, str]] = []
        headings: list[Block] = []
        placed: tuple[str, ...] | None = None
        for block in blocks:
            if block.kind is BlockKind.HEADING:
                path = [(level, title) for level, title in path if level < block.level]
                path.append((block.level, block.title))
                headings.append(block)
                continue
            titles = tuple(title for _, title in path) if block.path is None else block.path
            opens_section = bool(headings) or block.path != placed
            yield from self._section_units([*headings, block], titles, opens_section)
            headings, placed = [], block.path
        if headings:
            yield from self._section_units(headings, tuple(title for _, title in path), True)

    def _section_units(
        self, blocks: list[Block], titles: tuple[str, ...], opens_section: bool
    ) -> Iterator[_Unit]:
        last = blocks[-1]
        path = titles
        for start, end in self._split(blocks[0].start, last.end, last.kind is BlockKind.LINES):
            page = next(block.page for block in blocks if start < block.end)
            yield _Unit(start, end, page, path, opens_section, last.path is not None)
            opens_section = False
            # A table's first row is shown in its first passage; the others stand under it.
            if last.kind is BlockKind.LINES and last.title and path is titles:
                path = (*titles, last.title)

    def pack(self, units: Iterator[_Unit]) -> Iterator[list[_Unit]]:
        """Neighbouring units put together: within a section, or to reach the least size."""
        group: list[_Unit] = []
        for unit in units:
            if group and not self._joins(group, unit):
                yield group
                group = []
            group.append(unit)
        if group:
            yield group

    def _joins(self, group: list[_Unit], unit: _Unit) -> bool:
        start, end = group[0].start, group[-1].end
        if unit.opens_section and not self._fits(start, end, self._settings.least_tokens - 1):
            return False
        return self._fits(start, unit.end)

    def _split(self, start: int, end: int, by_lines: bool) -> Iterator[tuple[int, int]]:
        """A span cut into spans that fit, outer white space left out of each."""
        start, end = self._trim(start, end)
        while start < end:
            cut = self._cut(start, end, by_lines)
            yield self._trim(start, cut)
            start = self._skip_space(cut, end)

    def _cut(self, start: int, end: int, by_lines: bool) -> int:
        """The best place to end a passage that begins at `start`: at most `end`.

        A passage is at least half full, so that a boundary near its start can't make it tiny.
        """
        if self._fits(start, end):
            return end
        fits, too_long = self._bracket(start, end)
        full = min(max(self._gauge.reach(start, self._settings.max_tokens), fits), too_long)
        for boundary in _LINES_FIRST if by_lines else _SENTENCES_FIRST:
            ends = self._ends(boundary, start + (full - start) // 2, too_long)
            if (found := self._last_fit(start, ends)) is not None:
                return found
        return self._longest_fit(start, fits, too_long)

    def _bracket(self, start: int, end: int) -> tuple[int, int]:
        """Two ends near each other: the span to the first fits, to the second it does not.

        Without such a second one it is one behind the last that is allowed.
        """
        last = min(end, start + self._most_chars)
        fewest, most = _believed(self._settings.max_tokens)
        fits = min(max(self._gauge.reach(start, fewest), start + 1), last)
        while fits > start + 1 and not self._fits(start, fits):
            fits = start + (fits - start) // 2
        too_long = min(max(self._gauge.reach(start, most), fits) + _STEP_CHARS, last + 1)
        while too_long <= last and self._fits(start, too_long):
            fits, too_long = too_long, min(too_long + _STEP_CHARS, last + 1)
        if not self._believes:
            fits = self._longest_fit(start, fits, too_long)
            too_long = fits + 1
        return fits, too_long

    def _longest_fit(self, start: int, fits: int, too_long: int) -> int:
        """The largest end that fits, if counts grow with length.

        Byte-pair merges make counts not quite monotonic, so each candidate is measured: from where
        it is by the estimate in growing steps, and once one went too far by halves.
        """
        end, step = self._gauge.reach(start, self._settings.max_tokens), 1
        goes_up: bool | None = None
        while too_long - fits > 1:
            end = max(fits + 1, min(end, too_long - 1)) if step else (fits + too_long) // 2
            is_short = self._fits(start, end)
            fits, too_long = (end, too_long) if is_short else (fits, end)
            if is_short is not (goes_up := is_short if goes_up is None else goes_up):
                step = 0
            end += step if is_short else -step
            step *= 2
        return fits

    def _last_fit(self, start: int, ends: list[int]) -> int | None:
        """The last of ascending ends that fits, looked for from where it is by the estimate."""
        target = self._gauge.reach(start, self._settings.max_tokens) + _BOUNDARY_CHARS
        at = max(0, bisect_right(ends, target) - 1)
        while at + 1 < len(ends) and self._fits(start, ends[at + 1]):
            at += 1
        fitting = (end for end in reversed(ends[: at + 1]) if self._fits(start, end))
        return next(fitting, None)

    def _ends(self, boundary: re.Pattern[str], after: int, before: int) -> list[int]:
        """Ends of matches that lie between two places, ascending."""
        matches = boundary.finditer(self._text, max(0, after - _BOUNDARY_CHARS), before)
        return [end for found in matches if after < (end := found.end()) < before]

    def _trim(self, start: int, end: int) -> tuple[int, int]:
        start = self._skip_space(start, end)
        return start, max(start, start + len(self._text[start:end].rstrip()))

    def _skip_space(self, start: int, end: int) -> int:
        found = _NO_SPACE.search(self._text, start, end)
        return found.start() if found else end

    def _fits(self, start: int, end: int, tokens: int | None = None) -> bool:
        """Whether a span has at most so many tokens (None: as many as a passage may have)."""
        bound = self._settings.max_tokens if tokens is None else tokens
        if end - start > self._most_chars:
            return False
        start, end = self._trim(start, end)
        if self._believes:
            estimate, (fewest, most) = self._gauge.tokens(start, end), _believed(bound)
            if not fewest < estimate < most:
                return estimate <= fewest
        return self.count(start, end) <= bound

    def count(self, start: int, end: int) -> int:
        """Tokens of a span, encoded if it is not known."""
        if (start, end) not in self._counts:
            self._counts[start, end] = self._count_tokens(self._text[start:end])
        return self._counts[start, end]


def _believed(bound: int) -> tuple[int, int]:
    """Estimates up to the first are taken for at most `bound` tokens, from the second for more."""
    return bound * (_TRUST - 1) // _TRUST, bound * (_TRUST + 1) // _TRUST + 2
