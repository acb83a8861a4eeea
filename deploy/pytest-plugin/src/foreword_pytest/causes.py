"""The likely cause of a difference, read off the two texts. A guess, and called one."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from foreword_pytest.compare import Divergence, common_length
from foreword_pytest.prompt import FlatPrompt, Part

_WINDOW = 64
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_SPACE = re.compile(r"\s+")
_WORDS = re.compile(r"[^\s,;\[\](){}'\"]+")

_CLOCK = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp]\.?[Mm]\b)?"
    r"|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"
    r"|(?<![\d.])1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?(?!\d)"
    r"|\b(?:\d{1,2}(?:st|nd|rd|th)?\.?\s)?(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)"
    r"[a-zäé]*\.?(?:\s\d{1,2}(?:st|nd|rd|th)?)?(?:,?\s\d{4})?\b"
    r"|\b(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?:day)?\b"
    r"|\b(?:19|20)\d{2}\b"
    r"|\b(?:midnight|morning|noon|afternoon|evening|tonight|night)\b"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,16}\b")
_RANDOM_ID = re.compile(
    r"\b(?=\w*\d)(?:[0-9a-fA-F]{7,}|(?=\w*[A-Za-z])(?:[A-Za-z]+_)?[0-9A-Za-z]{10,})\b"
)
_PATH = re.compile(r"(?:/[\w.+-]+){2,}|[A-Za-z]:\\[\w.\\+-]+")
_NUMBER = re.compile(r"[+-]?\d[\d.,'\u00a0\u202f]*(?:[eE][+-]?\d+)?")

_TO_TAIL = "put it after everything that is shared: into the last user turn"


class Cause(Enum):
    """Why two prompts differ; the value says it, `advice` what to do."""

    TOOL_ORDER = "the order of the tools"
    TOOL_SET = "the set of tools"
    TRUNCATED = "messages dropped from the front of the history"
    MESSAGE_ORDER = "the order of the messages"
    NEWLINES = "CRLF and LF line ends"
    UNICODE = "two Unicode forms of one text (NFC and NFD)"
    INVISIBLE = "an invisible character"
    WHITESPACE = "white space"
    KEY_ORDER = "the order of keys in JSON"
    CLOCK = "a clock: a date or a time"
    UUID = "a UUID"
    ADDRESS = "an object's default repr, which holds its address"
    RANDOM_ID = "a random or per-request id"
    PATH = "a path of this machine or run"
    ORDER = "an order that isn't fixed: a set, a directory listing, a shuffle"
    NUMBER_FORMAT = "a number's format (locale)"
    NUMBER = "a number that changes: a counter, a measurement, a random draw"
    SOMETIMES = "text that is only there sometimes"
    TEXT = "other text"

    @property
    def advice(self) -> str:
        """What to do about it, in a sentence."""
        return _ADVICE[self]


_ADVICE = {
    Cause.TOOL_ORDER: "sort the tools by name before they are sent",
    Cause.TOOL_SET: "send all tools in every request, and choose among them with tool_choice",
    Cause.TRUNCATED: "keep the history append-only, and cut it rarely and by a lot",
    Cause.MESSAGE_ORDER: "keep the history append-only",
    Cause.NEWLINES: 'turn line ends into "\\n" where text comes in',
    Cause.UNICODE: 'use unicodedata.normalize("NFC", text) where text comes in',
    Cause.INVISIBLE: "strip it where text comes in",
    Cause.WHITESPACE: "make it the same whatever the values are; trim where text comes in",
    Cause.KEY_ORDER: "use json.dumps(…, sort_keys=True), or keep the text as first seen",
    Cause.CLOCK: _TO_TAIL,
    Cause.UUID: _TO_TAIL + ", or out of the prompt",
    Cause.ADDRESS: "give the object a text of its own",
    Cause.RANDOM_ID: _TO_TAIL + ", or out of the prompt",
    Cause.PATH: _TO_TAIL + ", or out of the prompt",
    Cause.ORDER: "sort before rendering",
    Cause.NUMBER_FORMAT: "format numbers without the locale",
    Cause.NUMBER: _TO_TAIL,
    Cause.SOMETIMES: "always render it, or " + _TO_TAIL,
    Cause.TEXT: _TO_TAIL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Texts:
    """The two texts that differ, where they do, and what differs up to their common end."""

    first: str
    second: str
    offset: int

    @property
    def middles(self) -> tuple[str, str]:
        one, other = self.first[self.offset :], self.second[self.offset :]
        end = common_length(one[::-1], other[::-1])
        return one[: len(one) - end], other[: len(other) - end]

    def both(self, pattern: re.Pattern[str]) -> bool:
        """Whether the difference lies in a match of the pattern, in both texts."""
        return _covers(pattern, self.first, self.offset) and _covers(
            pattern, self.second, self.offset
        )


def likely_cause(first: FlatPrompt, second: FlatPrompt, found: Divergence) -> Cause:
    """What most likely made two prompts differ."""
    return _of_parts(first, second, found) or _of_texts(
        _Texts(first=found.first.text, second=found.second.text, offset=found.offset),
        tokens=first.unit == "token",
    )


def _of_parts(first: FlatPrompt, second: FlatPrompt, found: Divergence) -> Cause | None:
    """Causes that show in the order of whole parts."""
    if "tools" in (found.first.role, found.second.role):
        return _of_tools(first, second)
    if found.first.message is None and found.second.message is None:
        return None
    one, other = _conversation(first), _conversation(second)
    if one == other:
        return None
    if Counter(one) == Counter(other):
        return Cause.MESSAGE_ORDER
    return Cause.TRUNCATED if _goes_on(one, other) or _goes_on(other, one) else None


def _of_tools(first: FlatPrompt, second: FlatPrompt) -> Cause | None:
    one, other = _tools(first), _tools(second)
    if Counter(one) == Counter(other):
        return Cause.TOOL_ORDER
    values, others = [_json(text) for text in one], [_json(text) for text in other]
    if values == others:
        return Cause.KEY_ORDER
    if sorted(map(_names, values)) == sorted(map(_names, others)):
        return None
    return Cause.TOOL_SET


def _of_texts(texts: _Texts, *, tokens: bool) -> Cause:
    if tokens:
        return Cause.TEXT
    for cause, equal in _EQUAL_BUT_FOR:
        if equal(texts.first) == equal(texts.second):
            return cause
    if _json(texts.first) is not None and _json(texts.first) == _json(texts.second):
        return Cause.KEY_ORDER
    if _is_permutation(texts.first, texts.second):
        quoted = '":' in texts.first[max(0, texts.offset - _WINDOW) : texts.offset + _WINDOW]
        return Cause.KEY_ORDER if quoted and _same_objects(texts) else Cause.ORDER
    for cause, pattern in _IN_BOTH:
        if texts.both(pattern):
            return cause
    if texts.both(_NUMBER):
        digits = [re.sub(r"\D", "", middle) for middle in texts.middles]
        return Cause.NUMBER_FORMAT if digits[0] == digits[1] else Cause.NUMBER
    return Cause.SOMETIMES if "" in texts.middles else Cause.TEXT


_EQUAL_BUT_FOR: Sequence[tuple[Cause, Callable[[str], str]]] = (
    (Cause.NEWLINES, lambda text: text.replace("\r\n", "\n").replace("\r", "\n")),
    (Cause.UNICODE, lambda text: unicodedata.normalize("NFC", text)),
    (Cause.INVISIBLE, lambda text: _INVISIBLE.sub("", text).replace("\u00a0", " ")),
    (Cause.WHITESPACE, lambda text: _SPACE.sub("", text)),
)
_IN_BOTH = (
    (Cause.UUID, _UUID),
    (Cause.ADDRESS, _ADDRESS),
    (Cause.CLOCK, _CLOCK),
    (Cause.PATH, _PATH),
    (Cause.RANDOM_ID, _RANDOM_ID),
)


def _covers(pattern: re.Pattern[str], text: str, offset: int) -> bool:
    start = max(0, offset - _WINDOW)
    window = text[start : offset + _WINDOW]
    return any(
        match.start() <= offset - start <= match.end() - 1 or match.end() == offset - start
        for match in pattern.finditer(window)
    )


def _is_permutation(one: str, other: str) -> bool:
    """Whether the words between the common beginning and end are the same in another order."""
    words, others = _words(one), _words(other)
    start = common_length(words, others)
    words, others = words[start:], others[start:]
    return len(words) > 1 and Counter(words) == Counter(others)


def _words(text: str) -> list[str]:
    return [word.rstrip(".!?:") for word in _WORDS.findall(text)]


def _same_objects(texts: _Texts) -> bool:
    """Whether the JSON objects around the difference have equal values."""
    one, other = (_object_around(text, texts.offset) for text in (texts.first, texts.second))
    return one is not None and one == other


def _object_around(text: str, offset: int) -> object:
    """The outermost JSON value that begins before an offset and holds it."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"[\[{]", text[: offset + 1]):
        try:
            value, stop = decoder.raw_decode(text, match.start())
        except json.JSONDecodeError:
            continue
        if stop > offset:
            return value
    return None


def _tools(prompt: FlatPrompt) -> list[str]:
    return [part.text for part in prompt.parts if part.role == "tools"]


def _conversation(prompt: FlatPrompt) -> list[tuple[str | None, str]]:
    return [(part.role, part.text) for part in _messages(prompt) if part.role != "system"]


def _messages(prompt: FlatPrompt) -> list[Part]:
    return [part for part in prompt.parts if part.message is not None]


def _goes_on(older: Sequence[object], newer: Sequence[object]) -> bool:
    """Whether a history begins in the middle of another one."""
    return any(older[start:] == newer[: len(older) - start] for start in range(1, len(older)))


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def _names(tool: object) -> str:
    match tool:
        case {"function": {"name": str() as name}} | {"name": str() as name}:
            return name
    return repr(tool)
