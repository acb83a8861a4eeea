"""What sets two texts of one template apart once spelling, clocks and ids are out of the way."""

import re
from collections import Counter
from dataclasses import dataclass

from cache.request_log.pieces import split_blocks, split_pieces
from prompts.shared_length import shared_length

_DOCUMENT = re.compile(
    r"<(?:doc|document|passage|chunk|source|context|result|item|file)\b|^\s*\[\d+\]"
    r"|^\W*(?:document|passage|source|chunk|result|title|url)\s*[#:\d]",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"^\W*(?:(?:few-?shot\s)?examples?|q|question|input|user|human|a|answer|output|assistant|label)"
    r"\s*[#\d]*\s*[:>\]]|<example\b",
    re.IGNORECASE | re.MULTILINE,
)
_PAIR = re.compile(r"^\W*[\w .-]{1,40}\s*[:=]\s*\S", re.MULTILINE)
_SEPARATOR = re.compile(r",\s*|;\s*|\s\|\s")
_PERSON_CUE = re.compile(
    r"(?:user|customer|client|name|tenant|account|member|employee|patient|student|company|caller"
    r"|organi[sz]ation|workspace|team|called|mr|mrs|ms|dr|dear|hello|hi|welcome|behalf of"
    r"|(?:assistant|agent|concierge|advisor|tutor|coach|secretary|aide)\s(?:of|for|to)"
    r"|help(?:ing)?|assist(?:ing)?|serv(?:e|ing)|talking (?:to|with)|speaking (?:to|with))"
    r"[\w ]{0,12}?(?:\s(?:is|to|with|for|of))?\s*[:=,]?\s*[\"'“(<]?$",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d_][\w'\u2019.-]*(?:\s+[^\W\d_][\w'\u2019.-]*){0,4}")
_NUMBERED = re.compile(
    r"^\W*(?:(?:example|document|source|passage|chunk|result|context)\s*)?[#\[(]?\d{1,3}\b[.):\]]?",
    re.IGNORECASE,
)
_LONG_BLOCK = 80
_LONG_IN_ALL = 600
_LONG_VALUE = 200
_LEAST_AFTER = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Why two texts part, as a rule code, and the text that only one and the other have there."""

    code: str
    one: str
    other: str
    sure: bool = True


def compare(
    one: str, other: str, *, users: tuple[str, ...] = (), anywhere: bool = False
) -> Difference | None:
    """The reason for which two texts part; None when they are equal.

    A value that differs is one only before text that both share, unless `anywhere`.
    """
    if one == other:
        return None
    blocks, others = _blocks(one), _blocks(other)
    return (
        _moved(blocks, others)
        or _moved(split_pieces(one), split_pieces(other))
        or _moved_items(one, other)
        or _examples(blocks, others)
        or _value(one, other, users, anywhere=anywhere)
    )


def _blocks(text: str) -> list[str]:
    return ["".join(block) for block in split_blocks(split_pieces(text))]


def _moved(parts: list[str], others: list[str]) -> Difference | None:
    """Parts that both have, in another order, where that is most of what differs."""
    mine, theirs = _stripped(parts), _stripped(others)
    known = Counter(theirs)
    shared = {part for part, count in Counter(mine).items() if count == known[part] == 1}
    order = [part for part in mine if part in shared]
    order_other = [part for part in theirs if part in shared]
    moved = [p for p, q in zip(order, order_other, strict=True) if p != q]
    own = sum(len(part) for part in {*mine, *theirs} if part not in shared)
    if not moved or 4 * sum(len(part) for part in moved) < own:
        return None
    at = order.index(moved[0])
    return Difference(code=_order_code(moved), one=order[at], other=order_other[at])


def _stripped(parts: list[str]) -> list[str]:
    """Parts without what depends on their place: blanks around, a number in front."""
    bare = [_NUMBERED.sub("", part).strip() for part in parts]
    return [part for part in bare if len(part) > 2]


def _order_code(moved: list[str]) -> str:
    """The rule for parts that moved, by what they look like."""
    text = "\n".join(moved)
    if len(_EXAMPLE.findall(text)) >= len(moved):
        return "FW107"
    if any(_DOCUMENT.search(part) for part in moved):
        return "FW502"
    if sum(1 for part in moved if _PAIR.match(part) and len(part) < _LONG_BLOCK) == len(moved):
        return "FW204"
    long = len(text) >= min(_LONG_BLOCK * len(moved), _LONG_IN_ALL)
    return "FW502" if long else "FW209"


def _moved_items(one: str, other: str) -> Difference | None:
    """Items of one line in another order, such as the members of a set."""
    mine, theirs = _first_pieces(one, other)
    items = [item.strip(" .\n{}[]()") for item in _SEPARATOR.split(mine)]
    others = [item.strip(" .\n{}[]()") for item in _SEPARATOR.split(theirs)]
    if len(items) < 2 or items == others:
        return None
    # The first and last item may carry words of the sentence around them.
    if Counter(items) != Counter(others) and not _same_words(mine, theirs):
        return None
    pairs = all(re.search(r"[:=]", item) for item in items)
    return Difference(code="FW204" if pairs else "FW209", one=mine, other=theirs)


def _same_words(one: str, other: str) -> bool:
    words, others = re.findall(r"\w+", one), re.findall(r"\w+", other)
    return len(words) > 2 and words != others and Counter(words) == Counter(others)


def _examples(blocks: list[str], others: list[str]) -> Difference | None:
    """Examples of which each text has a choice of its own."""
    mine = [block for block in blocks if is_example(block)]
    theirs = [block for block in others if is_example(block)]
    differ = set(mine) ^ set(theirs)
    if len(mine) < 2 or len(theirs) < 2 or not differ:
        return None
    changed = {block for block in set(blocks) ^ set(others) if block.strip()}
    if sum(len(block) for block in differ) < sum(len(block) for block in changed) / 2:
        return None
    one = next((block for block in mine if block in differ), "")
    return Difference(
        code="FW107", one=one, other=next((block for block in theirs if block in differ), "")
    )


def is_example(block: str) -> bool:
    """Whether a block looks like an example of a question with its answer."""
    cues = _EXAMPLE.findall(block)
    return len(cues) >= 2 or bool(cues and re.match(r"\W*<?(few|example)", block, re.IGNORECASE))


def _first_pieces(one: str, other: str) -> tuple[str, str]:
    """The first piece in which the texts differ."""
    pieces, others = split_pieces(one), split_pieces(other)
    for mine, theirs in zip(pieces, others, strict=False):
        if mine != theirs:
            return mine, theirs
    longer = pieces if len(pieces) > len(others) else others
    extra = longer[min(len(pieces), len(others))] if len(pieces) != len(others) else ""
    return (extra, "") if longer is pieces else ("", extra)


def _value(one: str, other: str, users: tuple[str, ...], *, anywhere: bool) -> Difference | None:
    """A value in a place of its own: a name, a number, a branch, a document."""
    mine, theirs = _first_pieces(one, other)
    if not anywhere and _shared_after(one, other) < _LEAST_AFTER:
        return None
    before, value, other_value = _slot(mine, theirs)
    if any(user and user in (value, other_value) for user in users):
        return Difference(code="FW104", one=value, other=other_value)
    document = bool(_DOCUMENT.search(mine) or _DOCUMENT.search(theirs))
    if document or min(_own_text(one, other), _own_text(other, one)) >= _LONG_VALUE:
        return Difference(code="FW501", one=mine, other=theirs, sure=document)
    if mine and theirs and (mine in split_pieces(other) or theirs in split_pieces(one)):
        return Difference(code="FW106", one=mine, other=theirs, sure=False)
    if _is_name(value) and _is_name(other_value):
        if _PERSON_CUE.search(before):
            return Difference(code="FW104", one=value, other=other_value)
        if value[:1].isupper() and other_value[:1].isupper():
            return Difference(code="FW104", one=value, other=other_value, sure=False)
    if not before.strip():
        return Difference(code="FW501", one=mine, other=theirs, sure=False)
    return Difference(code="FW101", one=value, other=other_value)


def _own_text(one: str, other: str) -> int:
    """Characters of pieces that only the first text has."""
    theirs = set(split_pieces(other))
    return sum(len(piece) for piece in split_pieces(one) if piece not in theirs)


def _shared_after(one: str, other: str) -> int:
    """Characters that both texts have behind the piece in which they part, documents aside."""
    parted, start, shared = shared_length(one, other), 0, 0
    theirs = set(split_pieces(other))
    for block in split_blocks(split_pieces(one)):
        document = bool(_DOCUMENT.search("".join(block)))
        for piece in block:
            if start > parted and piece in theirs and not document:
                shared += len(piece)
            start += len(piece)
    return shared


def _slot(mine: str, theirs: str) -> tuple[str, str, str]:
    """The common words before, and the differing words of two pieces."""
    words, others = re.findall(r"\s+|\w+|.", mine), re.findall(r"\s+|\w+|.", theirs)
    start = 0
    while start < min(len(words), len(others)) and words[start] == others[start]:
        start += 1
    stop = 0
    limit = min(len(words), len(others)) - start
    while stop < limit and words[-1 - stop] == others[-1 - stop]:
        stop += 1
    value = "".join(words[start : len(words) - stop])
    other_value = "".join(others[start : len(others) - stop])
    return "".join(words[:start]), value.strip(), other_value.strip()


def _is_name(value: str) -> bool:
    return len(value) <= 60 and bool(_NAME.fullmatch(value))
