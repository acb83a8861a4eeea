"""What a DOCX file's styles and numbering say: which paragraphs are headings, what marks a list.

Both parts are small XML files beside the text; a file may lack them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from retrieval.parsing.xml_events import local_name

_HEADING = "heading "
_MAX_LEVEL = 6
# Outline levels in files are 0 to 8; 9 is body text.
_OUTLINE_LEVELS = 9
_ROMAN = (
    (1000, "m"),
    (900, "cm"),
    (500, "d"),
    (400, "cd"),
    (100, "c"),
    (90, "xc"),
    (50, "l"),
    (40, "xl"),
    (10, "x"),
    (9, "ix"),
    (5, "v"),
    (4, "iv"),
    (1, "i"),
)
_MAX_ROMAN = 3999


@dataclass(slots=True)
class Style:
    """A paragraph style as the file defines it; what it leaves out comes from `based_on`."""

    name: str = ""
    based_on: str | None = None
    outline: int | None = None
    number_id: str | None = None
    number_level: int | None = None


def value_of(attributes: Mapping[str, str]) -> str:
    """The `w:val` of an element, in either of the two namespaces."""
    return next((value for key, value in attributes.items() if local_name(key) == "val"), "")


def attribute(attributes: Mapping[str, str], name: str) -> str:
    return next((value for key, value in attributes.items() if local_name(key) == name), "")


def whole_number(text: str) -> int | None:
    """A number of up to 9 digits; None for anything else that a file may hold."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


class Styles:
    """Reads `styles.xml`; a `Handler`."""

    def __init__(self) -> None:
        self._styles: dict[str, Style] = {}
        self._current = Style()

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        match local_name(tag):
            case "style":
                self._current = Style()
                self._styles[attribute(attributes, "styleId")] = self._current
            case "name":
                self._current.name = value_of(attributes).lower()
            case "basedOn":
                self._current.based_on = value_of(attributes)
            case "outlineLvl":
                self._current.outline = whole_number(value_of(attributes))
            case "numId":
                self._current.number_id = value_of(attributes)
            case "ilvl":
                self._current.number_level = whole_number(value_of(attributes))

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass

    def is_title(self, style_id: str) -> bool:
        return any(style.name == "title" for style in self._line(style_id))

    def heading_level(self, style_id: str) -> int:
        """1 to 6 for a heading, 0 otherwise."""
        for style in self._line(style_id):
            if style.outline is not None:
                return heading_level(style.outline)
            if style.name.startswith(_HEADING):
                number = whole_number(style.name[len(_HEADING) :])
                return min(number, _MAX_LEVEL) if number else 0
        return 0

    def numbering(self, style_id: str) -> tuple[str | None, int]:
        """The list that its paragraphs belong to, and the level in it."""
        line = self._line(style_id)
        number_id = next((s.number_id for s in line if s.number_id is not None), None)
        level = next((s.number_level for s in line if s.number_level is not None), 0)
        return number_id, level

    def _line(self, style_id: str) -> list[Style]:
        """The style and those it is based on, each once."""
        line: list[Style] = []
        style = self._styles.get(style_id)
        while style is not None and style not in line and len(line) < 32:
            line.append(style)
            style = self._styles.get(style.based_on or "")
        return line


def heading_level(outline: int) -> int:
    """A paragraph's outline level as a heading's: 1 to 6, 0 for body text."""
    return min(outline + 1, _MAX_LEVEL) if outline < _OUTLINE_LEVELS else 0


@dataclass(slots=True)
class _Level:
    """One level of a list: its number format, its pattern (`%1.%2`), where it starts."""

    format: str = "decimal"
    pattern: str = ""
    start: int = 1


@dataclass(slots=True)
class _Abstract:
    levels: dict[int, _Level] = field(default_factory=dict)


class Numbering:
    """Reads `numbering.xml` (a `Handler`), then counts items; used for one document."""

    def __init__(self) -> None:
        self._abstracts: dict[str, _Abstract] = {}
        self._of_number: dict[str, str] = {}
        self._abstract = _Abstract()
        self._level = _Level()
        self._number_id = ""
        self._counts: dict[str, dict[int, int]] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        value = value_of(attributes)
        match local_name(tag):
            case "abstractNum":
                self._abstract = _Abstract()
                self._abstracts[attribute(attributes, "abstractNumId")] = self._abstract
            case "lvl":
                self._level = _Level()
                number = whole_number(attribute(attributes, "ilvl"))
                self._abstract.levels[number or 0] = self._level
            case "start":
                self._level.start = whole_number(value) or 0
            case "numFmt":
                self._level.format = value
            case "lvlText":
                self._level.pattern = value
            case "num":
                self._number_id = attribute(attributes, "numId")
                # Levels that an instance overrides don't change what the others of its kind say.
                self._abstract = _Abstract()
            case "abstractNumId":
                self._of_number[self._number_id] = value

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass

    def mark(self, number_id: str, level: int) -> str:
        """What stands before the next item of a list: `-`, `3.`, `2.1`; empty for no list.

        Mutates: counts the item, and starts deeper levels anew.
        """
        abstract = self._abstracts.get(self._of_number.get(number_id, ""))
        if abstract is None:
            return ""
        definition = abstract.levels.get(level, _Level())
        if definition.format == "none":
            return ""
        if definition.format == "bullet":
            return "-"
        counts = self._counts.setdefault(number_id, {})
        counts[level] = counts.get(level, definition.start - 1) + 1
        for deeper in [known for known in counts if known > level]:
            del counts[deeper]
        return self._spelled(abstract, counts, definition.pattern or f"%{level + 1}.")

    def _spelled(self, abstract: _Abstract, counts: dict[int, int], pattern: str) -> str:
        for level in range(9):
            definition = abstract.levels.get(level, _Level())
            number = counts.get(level, definition.start)
            pattern = pattern.replace(f"%{level + 1}", _number(number, definition.format))
        return pattern.strip()


def _number(number: int, format_: str) -> str:
    match format_:
        case "lowerLetter":
            return _letters(number)
        case "upperLetter":
            return _letters(number).upper()
        case "lowerRoman":
            return _roman(number)
        case "upperRoman":
            return _roman(number).upper()
        case _:
            return str(number)


def _letters(number: int) -> str:
    """a to z, then aa, bb: as word processors count."""
    if not 1 <= number <= 26 * 8:
        return str(number)
    return chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)


def _roman(number: int) -> str:
    if not 1 <= number <= _MAX_ROMAN:
        return str(number)
    digits = []
    for value, letters in _ROMAN:
        digits.append(letters * (number // value))
        number %= value
    return "".join(digits)
