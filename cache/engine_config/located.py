"""Words with their places in a file, whatever they stood in: a script, a YAML text, a list."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cache.engine_config.view import Written
from cache.engine_config.words import Command, Word, commands
from prompts.lint.source_file import SourceFile

_NEAR = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedWord:
    """A word and where it is."""

    text: str
    at: Written


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedCommand:
    """One command's words, and the variables that were set for it."""

    words: tuple[LocatedWord, ...]
    variables: Mapping[str, LocatedWord]


def script_commands(source: SourceFile) -> list[LocatedCommand]:
    """The commands of a file that is a shell text."""
    return _located(commands(source.text), lambda word: _written(source, word.start, word.stop))


def text_commands(text: str, node: Written) -> list[LocatedCommand]:
    """The commands of a text that is the value of a YAML node: each word is looked for in it."""
    finder = _Finder(text, node)
    return _located(commands(text), finder.place)


def joined(first: Written, last: Written) -> Written:
    """From the first to the last, where the last follows it; what an array brought may be far."""
    if last.source is not first.source or not 0 <= last.start - first.stop <= _NEAR:
        return first
    return _written(first.source, first.start, last.stop)


def _written(source: SourceFile, start: int, stop: int) -> Written:
    return Written(source=source, start=start, stop=stop)


def _located(read: Iterable[Command], place: Callable[[Word], Written]) -> list[LocatedCommand]:
    return [
        LocatedCommand(
            words=tuple(LocatedWord(text=word.text, at=place(word)) for word in command.words),
            variables={
                name: LocatedWord(text=word.text, at=place(word))
                for name, word in command.variables.items()
            },
        )
        for command in read
    ]


class _Finder:
    """Finds words of a YAML value in the characters that it was written with."""

    def __init__(self, text: str, node: Written) -> None:
        self._text = text
        self._node = node
        self._raw = node.source.text[node.start : node.stop]

    def place(self, word: Word) -> Written:
        """The word's place; the whole node's where folding or escapes hide it."""
        written = self._text[word.start : word.stop]
        nth = self._text.count(written, 0, word.start) if written else 0
        at = -1
        for _ in range(nth + 1):
            at = self._raw.find(written, at + 1)
            if at < 0:
                return self._node
        start = self._node.start + at
        return _written(self._node.source, start, start + len(written))
