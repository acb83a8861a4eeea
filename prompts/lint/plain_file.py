"""Plain prompt files: Jinja where the text is Jinja, else text with `{placeholders}`."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from prompts.lint.findings import Edit, Place
from prompts.lint.jinja_source import JinjaReader, JinjaSource, PromptSyntaxError
from prompts.lint.part import Part
from prompts.lint.pieces import Facts, Text
from prompts.lint.placeholders import read_placeholders
from prompts.lint.prompt_source import PromptSource
from prompts.lint.roles import Turn, last_user_turn, role_marks
from prompts.lint.source_file import SourceFile
from prompts.lint.vocabulary import Kind
from prompts.lint.walker import walk

JINJA_SUFFIXES = frozenset({".j2", ".jinja", ".jinja2"})
TEXT_SUFFIXES = frozenset({".prompt", ".tmpl", ".txt", ".md"})

_MARKS = ("{{", "{%", "{#")

# The file that a file includes under a name; None if there is none.
Included = Callable[[Path, str], SourceFile | None]


@dataclass(frozen=True)
class FileLocator:
    """Maps text with LF line ends to the file's bytes, whose line ends may be others."""

    source: SourceFile

    def place(self, start: int, stop: int) -> Place:
        return self.source.characters(self._character(start), self._character(stop))

    def edit(self, start: int, stop: int, text: str) -> Edit:
        first = self.source.byte_offset(self._character(start))
        last = self.source.byte_offset(self._character(stop))
        return Edit(start=first, stop=last, replacement=text.encode())

    def _character(self, offset: int) -> int:
        """The file's character for one of the text: each CRLF before it is one longer."""
        if not self._line_ends:
            return offset
        return offset + bisect_right(self._line_ends, offset - 1)

    @cached_property
    def _line_ends(self) -> list[int]:
        """Offsets in the text of line feeds that are CRLF in the file."""
        if b"\r\n" not in self.source.data:
            return []
        ends, position = [], -1
        for line in self.source.text.split("\r\n")[:-1]:
            position += len(line) + 1
            ends.append(position)
        return ends


def read_plain(source: SourceFile, reader: JinjaReader, included: Included) -> PromptSource:
    """The prompt in a plain file; `included` finds the files that it includes.

    Raises:
        PromptSyntaxError: a file of a Jinja suffix isn't valid Jinja; its offset counts in text
            with LF line ends.
        UnicodeDecodeError: the file isn't UTF-8.
    """
    text = _line_feeds(source.text)
    jinja = _jinja(source, text, reader)
    if jinja is None:
        facts = read_placeholders(text)
    else:
        facts = walk(jinja, files=lambda name: _other(source, name, reader, included))
    part = Part(text=text, facts=facts, locator=FileLocator(source), jinja=jinja)
    turns = [Turn(offset, role, spelled=False) for offset, role in facts.roles]
    for piece in facts.pieces:
        if isinstance(piece, Text):
            turns += role_marks(piece.text, piece.start)
    last = last_user_turn(turns)
    if last is not None and text[:last].strip():
        part = replace(part, last_turn=last)
    raw = any(turn.spelled for turn in turns) or _is_chat_template(facts)
    return PromptSource(source=source, parts=(part,), raw=raw)


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _other(
    source: SourceFile, name: str, reader: JinjaReader, included: Included
) -> JinjaSource | None:
    """Another file's text, if it is there and can be read; what is wrong with it is its own."""
    found = included(source.path, name)
    if found is None:
        return None
    try:
        return reader.read(_line_feeds(found.text))
    except (PromptSyntaxError, UnicodeDecodeError):
        return None


def _is_chat_template(facts: Facts) -> bool:
    """Whether it puts messages into a model's own marks, by asking for their roles."""
    return any(
        found.name == "role" and Kind.HISTORY in found.nature.kinds for found in facts.attributes
    )


def _jinja(source: SourceFile, text: str, reader: JinjaReader) -> JinjaSource | None:
    """The parsed text; None for a text file that only looks like Jinja, or not even that."""
    strict = source.path.suffix.lower() in JINJA_SUFFIXES
    if not strict and not any(mark in text for mark in _MARKS):
        return None
    try:
        parsed = reader.read(text)
    except PromptSyntaxError:
        if strict:
            raise
        return None
    # `{{braces}}` around nothing that Jinja acts on: `{single}` ones may be the placeholders.
    return parsed if strict or parsed.tag_starts or parsed.comments else None
