"""Shell text as words with their places, as far as starting a server needs it.

Quotes, backslashes, comments, continued lines, variables that the text sets itself, their defaults
(`${PORT:-8000}`), arrays (`"${ARGS[@]}"`) and separators of commands are understood. What can't be
known, such as `$(hostname)` or `$HOME`, stays as it is written.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(\[@\])?(?:(:?[-+?])([^{}]*))?\}|([A-Za-z_]\w*))")
_SEPARATORS = frozenset(";|&\n")
_BLANKS = frozenset(" \t\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word's text, and where it stands: `start <= i < stop`, quotes included.

    `head` is what stands before its first quote, `closes` says that it ends with an unquoted
    parenthesis: as much as assignments and arrays need of its quotes.
    """

    text: str
    start: int
    stop: int
    quoted: bool = False
    head: str = ""
    closes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The words of one command, and the variables that are set in front of it or before."""

    words: tuple[Word, ...]
    variables: Mapping[str, Word]


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """The text with variables replaced by their values or defaults; others stay."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[5]
        if name in variables:
            return variables[name]
        if found[3] in ("-", ":-"):
            return found[4]
        return found[0]

    return _VARIABLE.sub(value, text)


def commands(text: str) -> list[Command]:
    """The commands of a shell text. Lines that begin with `--` go on with the command before."""
    found: list[Command] = []
    variables: dict[str, Word] = {}
    arrays: dict[str, tuple[Word, ...]] = {}
    for words in _split(text):
        rest = _assign(words, variables, arrays)
        if not rest:
            continue
        expanded = tuple(made for word in rest for made in _expand(word, variables, arrays))
        if found and expanded and expanded[0].text.startswith("--"):
            last = found[-1]
            found[-1] = replace(last, words=last.words + expanded)
        else:
            found.append(Command(words=expanded, variables=dict(variables)))
    return found


def _assign(
    words: list[Word], variables: dict[str, Word], arrays: dict[str, tuple[Word, ...]]
) -> list[Word]:
    """Notes leading assignments; the words that are left."""
    while words and words[0].text in ("export", "declare", "local", "set", "exec", "nohup", "env"):
        words = words[1:]
    while words and (found := _ASSIGNMENT.match(words[0].head)):
        first, name = words[0], found[1]
        value = first.text[found.end() :]
        if first.head[found.end() :].startswith("("):
            inside, words = _array(words, found.end())
            made = tuple(each for word in inside for each in _expand(word, variables, arrays))
            arrays[name] = (arrays.get(name, ()) if found[2] else ()) + made
            continue
        texts = {key: word.text for key, word in variables.items()}
        variables[name] = replace(first, text=substitute(value, texts))
        words = words[1:]
    return words


def _array(words: list[Word], offset: int) -> tuple[tuple[Word, ...], list[Word]]:
    """The words between an array's parentheses, and those behind it."""
    first = replace(words[0], text=words[0].text[offset + 1 :])
    inside: list[Word] = []
    for index, word in enumerate([first, *words[1:]]):
        text = word.text[:-1] if word.closes else word.text
        if text or word.quoted:
            inside.append(replace(word, text=text))
        if word.closes:
            return tuple(inside), words[index + 1 :]
    return tuple(inside), []


def _expand(
    word: Word, variables: Mapping[str, Word], arrays: Mapping[str, tuple[Word, ...]]
) -> list[Word]:
    found = _VARIABLE.fullmatch(word.text)
    if found and found[2] and found[1] in arrays:
        return list(arrays[found[1]])
    texts = {key: each.text for key, each in variables.items()}
    text = substitute(word.text, texts)
    if found and not word.quoted and " " in text:
        return [replace(word, text=part) for part in text.split()]
    return [replace(word, text=text)]


def _split(text: str) -> list[list[Word]]:
    """The words of each command, before variables."""
    reader = _Reader(text)
    found: list[list[Word]] = [[]]
    while (read := reader.next()) is not None:
        if read == "":
            found.append([])
        elif isinstance(read, Word):
            found[-1].append(read)
    return [words for words in found if words]


class _Reader:
    """Goes through a text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def next(self) -> "Word | str | None":
        """The next word; an empty text where a command ends; None at the end."""
        self._skip_blanks()
        if self._at >= len(self._text):
            return None
        character = self._text[self._at]
        if character in _SEPARATORS:
            self._at += 1
            # An array's words may stand on several lines.
            return " " if character == "\n" and self._depth else ""
        if character in "<>":
            return self._redirection()
        word = self._word()
        if not word.text and not word.quoted:
            return " "
        self._depth += word.head.count("=(")
        self._depth -= word.closes and self._depth > 0
        return word

    def _skip_blanks(self) -> None:
        while self._at < len(self._text):
            if self._text[self._at] in _BLANKS:
                self._at += 1
            elif continued := re.compile(r"\\\r?\n").match(self._text, self._at):
                self._at = continued.end()
            elif self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                return

    def _redirection(self) -> str:
        """Skips it, with the file that it names."""
        while self._at < len(self._text) and self._text[self._at] in "<>&":
            self._at += 1
        self._skip_blanks()
        if self._at < len(self._text) and self._text[self._at] not in _SEPARATORS:
            self._word()
        return " "

    def _word(self) -> Word:
        start, closes = self._at, False
        parts: list[str] = []
        head: str | None = None
        while self._at < len(self._text):
            character = self._text[self._at]
            if character in _BLANKS or character in _SEPARATORS or character in "<>":
                break
            if character in "'\"":
                head = "".join(parts) if head is None else head
                parts.append(self._quoted(character))
                closes = False
            elif character == "\\":
                if re.compile(r"\\\r?\n").match(self._text, self._at):
                    break
                parts.append(self._text[self._at + 1 : self._at + 2])
                self._at = min(self._at + 2, len(self._text))
                closes = False
            elif self._text.startswith("$(", self._at) or character == "`":
                parts.append(self._substitution())
                closes = False
            else:
                parts.append(character)
                self._at += 1
                closes = character == ")"
        text = "".join(parts)
        if text.isdigit() and self._text[self._at : self._at + 1] in ("<", ">"):
            text = ""
        return Word(
            text=text,
            start=start,
            stop=self._at,
            quoted=head is not None,
            head=text if head is None else head,
            closes=closes,
        )

    def _quoted(self, mark: str) -> str:
        self._at += 1
        parts: list[str] = []
        while self._at < len(self._text) and self._text[self._at] != mark:
            character = self._text[self._at]
            following = self._text[self._at + 1 : self._at + 2]
            if mark == '"' and character == "\\" and following in ('"', "\\", "$", "`", "\n"):
                parts.append("" if following == "\n" else following)
                self._at += 2
            else:
                parts.append(character)
                self._at += 1
        self._at = min(self._at + 1, len(self._text))
        return "".join(parts)

    def _substitution(self) -> str:
        """A command's output, which isn't known: kept as it is written."""
        start = self._at
        if self._text[start] == "`":
            end = self._text.find("`", start + 1)
            self._at = len(self._text) if end < 0 else end + 1
            return "$" + self._text[start : self._at]
        depth = 0
        while self._at < len(self._text):
            depth += {"(": 1, ")": -1}.get(self._text[self._at], 0)
            self._at += 1
            if depth == 0 and self._text[self._at - 1] == ")":
                break
        return self._text[start : self._at]
