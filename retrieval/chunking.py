"""A document cut into passages, by structure first and by tokens where structure is too coarse.

Pure: the same document, tokenizer and settings give the same passages, whatever is asked of them
later. Passages don't overlap; together they hold every character that isn't white space, so a
document can be put together again and no token is paid for twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from retrieval.documents import Block, BlockKind, ParsedDocument, Passage, content_id

# A UTF-8 character is at most 4 byte-level tokens; below this a single character might not fit.
_SMALLEST_MAX_TOKENS = 16
# No tokenizer in use packs more characters into a token on running text; it bounds the search.
_CHARS_PER_TOKEN = 16
_SENTENCE_ENDS = ".!?\u2026\u3002\uff01\uff1f"


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
    """A span that fits into one passage, and the structure it stands in."""

    start: int
    end: int
    page: int | None
    heading_path: tuple[str, ...]
    opens_section: bool


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
    cutter = _Cutter(document.text, count_tokens, settings or ChunkingSettings())
    groups = cutter.pack(cutter.units(document.blocks))
    return [
        _passage(document, position, group, count_tokens) for position, group in enumerate(groups)
    ]


def _passage(
    document: ParsedDocument,
    position: int,
    group: list[_Unit],
    count_tokens: Callable[[str], int],
) -> Passage:
    first, last = group[0], group[-1]
    text = document.text[first.start : last.end]
    return Passage(
        id=content_id("chunk", (document.id, f"{first.start}-{last.end}", text)),
        position=position,
        start=first.start,
        end=last.end,
        text=text,
        token_count=count_tokens(text),
        page=first.page,
        heading_path=first.heading_path,
    )


class _Cutter:
    """The steps of chunking that need the text, the tokenizer and the settings."""

    def __init__(
        self, text: str, count_tokens: Callable[[str], int], settings: ChunkingSettings
    ) -> None:
        self._text = text
        self._count_tokens = count_tokens
        self._settings = settings

    def units(self, blocks: tuple[Block, ...]) -> Iterator[_Unit]:
        """Each block as units that fit, with the headings above it.

        Headings go with the block that follows them, so that none stands alone at an end.
        """
        path: list[tuple[int, str]] = []
        headings: list[Block] = []
        for block in blocks:
            if block.kind is BlockKind.HEADING:
                path = [(level, title) for level, title in path if level < block.level]
                path.append((block.level, block.title))
                headings.append(block)
            else:
                yield from self._section_units([*headings, block], path)
                headings = []
        if headings:
            yield from self._section_units(headings, path)

    def _section_units(self, blocks: list[Block], path: list[tuple[int, str]]) -> Iterator[_Unit]:
        titles = tuple(title for _, title in path)
        opens_section = blocks[0].kind is BlockKind.HEADING
        for start, end in self._split(blocks[0].start, blocks[-1].end):
            page = next(block.page for block in blocks if start < block.end)
            yield _Unit(start, end, page, titles, opens_section)
            opens_section = False

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
        if unit.opens_section and self._count(start, end) >= self._settings.least_tokens:
            return False
        return self._fits(start, unit.end)

    def _split(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """A span cut into spans that fit, outer white space left out of each."""
        start, end = self._trim(start, end)
        while start < end:
            cut = self._cut(start, end)
            yield self._trim(start, cut)
            start, _ = self._trim(cut, end)

    def _cut(self, start: int, end: int) -> int:
        """The best place to end a passage that begins at `start`: at most `end`."""
        limit = self._longest_fit(start, end)
        if limit == end:
            return end
        for is_boundary in (self._after_sentence, self._after_line, self._after_word):
            for cut in range(limit, start + (limit - start) // 2, -1):
                if is_boundary(cut) and self._fits(start, cut):
                    return cut
        return limit

    def _longest_fit(self, start: int, end: int) -> int:
        """An end such that the span fits; the largest one if counts grow with length.

        Byte-pair merges make counts not quite monotonic, so each candidate is measured.
        """
        fits = start + 1
        too_long = min(end, start + self._settings.max_tokens * _CHARS_PER_TOKEN) + 1
        while too_long - fits > 1:
            middle = (fits + too_long) // 2
            if self._fits(start, middle):
                fits = middle
            else:
                too_long = middle
        return fits

    def _after_sentence(self, cut: int) -> bool:
        return self._text[cut - 1].isspace() and self._text[cut - 2] in _SENTENCE_ENDS

    def _after_line(self, cut: int) -> bool:
        return self._text[cut - 1] == "\n"

    def _after_word(self, cut: int) -> bool:
        return self._text[cut - 1].isspace()

    def _trim(self, start: int, end: int) -> tuple[int, int]:
        span = self._text[start:end]
        left = len(span) - len(span.lstrip())
        return start + left, max(start + left, start + len(span.rstrip()))

    def _fits(self, start: int, end: int) -> bool:
        return self._count(*self._trim(start, end)) <= self._settings.max_tokens

    def _count(self, start: int, end: int) -> int:
        return self._count_tokens(self._text[start:end])
