"""The fix for text in the wrong order: a template's segments, sorted by how often they change.

Whole segments are moved, within the message they are in: a run of neighbours of one role. What
stands between two segments (blank lines, comments of their own) stays where it is.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

import yaml

from prompts.errors import TemplateError
from prompts.lint.breaks import Break
from prompts.lint.findings import Edit, Fix, FixSafety
from prompts.lint.prompt_source import PromptSource
from prompts.lint.source_file import SourceFile
from prompts.template import Segment, Template
from prompts.template_file import parse_template
from prompts.yaml_nodes import compose

_LINE = re.compile("[^\r\n]*(?:\r\n|\r|\n|$)")
_ENDS = "\r\n"

T = TypeVar("T")

# Characters `start <= i < stop` of a file.
_Span = tuple[int, int]


def moving_fix(prompt: PromptSource, found: Break) -> Fix | None:
    """The fix that sorts the segments of the break's message; None where that is no remedy.

    It is offered only if the break is gone and no other has come, and if the file still says the
    same of every segment.
    """
    template = prompt.template
    if template is None:
        return None
    run = _run(template.segments, found.at.part.segment)
    order = sorted(run, key=lambda index: template.segments[index].volatility)
    if order == list(run) or not _helps(prompt, found, run, order):
        return None
    edits = tuple(_edits(prompt.source, run, order))
    if not edits or not _keeps(prompt.source, template, edits, run, order):
        return None
    return Fix(
        safety=FixSafety.UNSAFE,
        description="move the segments of this message that change more often behind the others",
        edits=edits,
    )


def _run(segments: tuple[Segment, ...], wanted: str | None) -> range:
    """The indexes of the segments in one message with the segment; none for a conversation."""
    start = 0
    for role, group in groupby(segments, key=lambda segment: segment.role):
        names = [segment.id for segment in group]
        if role is not None and wanted in names:
            return range(start, start + len(names))
        start += len(names)
    return range(0)


def _moved(items: tuple[T, ...], run: range, order: list[int]) -> tuple[T, ...]:
    return (*items[: run.start], *(items[index] for index in order), *items[run.stop :])


def _helps(prompt: PromptSource, found: Break, run: range, order: list[int]) -> bool:
    after = replace(prompt, parts=_moved(prompt.parts, run, order))
    left = {_identity(each) for each in after.breaks}
    return _identity(found) not in left and left <= {_identity(each) for each in prompt.breaks}


def _identity(found: Break) -> tuple[str | None, int, bool]:
    return found.at.part.segment, found.at.piece.start, found.forks


def _edits(source: SourceFile, run: range, order: list[int]) -> Iterator[Edit]:
    """Each segment's characters in place of those that stood there."""
    spans = _spans(source)
    for place, index in zip(run, order, strict=True) if spans else ():
        if place != index:
            start, stop = spans[place]
            first, last = spans[index]
            yield Edit(
                start=source.byte_offset(start),
                stop=source.byte_offset(stop),
                replacement=source.text[first:last].encode(),
            )


def _keeps(
    source: SourceFile, template: Template, edits: tuple[Edit, ...], run: range, order: list[int]
) -> bool:
    """Whether the file with the edits holds the same segments in the new order: no other change.

    Anchors, and a last line without an end, can make a segment say something else elsewhere.
    """
    data = source.data
    for edit in reversed(edits):
        data = data[: edit.start] + edit.replacement + data[edit.stop :]
    try:
        after = parse_template(source.path, data, checked=False)
    except TemplateError:
        return False
    return after == replace(template, segments=_moved(template.segments, run, order))


def _spans(source: SourceFile) -> list[_Span]:
    """Where each segment stands in the file, without its line end; empty if that can't be told."""
    root = compose(source.path, source.text)
    assert isinstance(root, yaml.MappingNode)
    listed = next(value for key, value in root.value if key.value == "segments")
    if listed.flow_style:
        return [(item.start_mark.index, item.end_mark.index) for item in listed.value]
    return _BlockItems(source.text, listed).spans()


class _BlockItems:
    """The items of a block list, each with the comments directly above it."""

    def __init__(self, text: str, listed: yaml.SequenceNode) -> None:
        self._lines = [match.group() for match in _LINE.finditer(text) if match.group()]
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._listed = listed
        self._indent = listed.start_mark.column

    def spans(self) -> list[_Span]:
        """Empty if an item doesn't begin with its dash at the list's indentation."""
        spans: list[_Span] = []
        stop = self._listed.start_mark.line
        while stop and self._is_comment(stop - 1):
            stop -= 1
        for item in self._listed.value:
            dash = self._dash(item.start_mark.line, stop)
            if dash is None:
                return []
            start = dash
            while start > stop and self._is_comment(start - 1):
                start -= 1
            stop = self._stop(item)
            last = self._lines[stop - 1]
            end = self._starts[stop] - (len(last) - len(last.rstrip(_ENDS)))
            spans.append((self._starts[start], end))
        return spans

    def _dash(self, line: int, first: int) -> int | None:
        """The last line down to `line` that opens an item of this list."""
        opening = " " * self._indent + "-"
        for index in range(line, first - 1, -1):
            text = self._lines[index]
            if text.startswith(opening) and not text[len(opening) :].strip(_ENDS)[:1].strip():
                return index
        return None

    def _is_comment(self, line: int) -> bool:
        return self._lines[line].lstrip().startswith("#")

    def _stop(self, item: yaml.Node) -> int:
        """The line behind the item's last one: comments indented deeper than the list are its."""
        stop = _last_line(item, self._lines) + 1
        while stop < len(self._lines) and self._is_comment(stop):
            line = self._lines[stop]
            if len(line) - len(line.lstrip()) <= self._indent:
                break
            stop += 1
        return stop


def _last_line(node: yaml.Node, lines: list[str]) -> int:
    """The last line that holds something of a node."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        children = [part for pair in node.value for part in _parts(pair)]
        return max([node.start_mark.line, *(_last_line(child, lines) for child in children)])
    end = node.end_mark
    if not isinstance(node, yaml.ScalarNode) or node.style not in ("|", ">"):
        return end.line
    last = min(end.line, len(lines)) - 1 if end.column == 0 else end.line
    if _keeps_blank_lines(lines[node.start_mark.line][node.start_mark.column :]):
        return last
    while last > node.start_mark.line and not lines[last].strip(_ENDS):
        last -= 1
    return last


def _keeps_blank_lines(header: str) -> bool:
    return "+" in header.partition("#")[0]


def _parts(pair: yaml.Node | tuple[yaml.Node, yaml.Node]) -> tuple[yaml.Node, ...]:
    return pair if isinstance(pair, tuple) else (pair,)
