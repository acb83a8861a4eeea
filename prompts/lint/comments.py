"""Where suppressions stand: in comments of Jinja and of YAML, but not in a file's texts."""

import re
from collections.abc import Iterable, Iterator

import yaml

from prompts.lint.prompt_source import PromptSource
from prompts.lint.source_file import SourceFile
from prompts.lint.suppressions import Suppression, parse_suppression
from prompts.yaml_nodes import compose

_YAML_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\r\n#]*foreword:[^\r\n]*", re.MULTILINE)
_BLOCK = ("|", ">")

Span = tuple[int, int]


def jinja_suppressions(prompt: PromptSource) -> Iterator[Suppression]:
    """Those in Jinja's comments."""
    for part in prompt.parts:
        for comment in part.jinja.comments if part.jinja else ():
            place = part.locator.place(comment.start, comment.stop)
            line = prompt.source.line_text(place.line).strip()
            written = part.text[comment.start : comment.stop]
            found = parse_suppression(comment.text, place, alone=line == written)
            if found is not None:
                yield found


def template_suppressions(prompt: PromptSource) -> Iterator[Suppression]:
    """Those in a template's YAML comments; in a segment's text, `#` is text."""
    places = (part.locator.place(0, len(part.text)) for part in prompt.parts if part.jinja)
    return _yaml_suppressions(prompt.source, ((place.start, place.stop) for place in places))


def agent_suppressions(source: SourceFile) -> Iterator[Suppression]:
    """Those in the YAML comments of an agent's file, which can be read; not in its texts."""
    return _yaml_suppressions(source, _texts(source))


def _yaml_suppressions(source: SourceFile, texts: Iterable[Span]) -> Iterator[Suppression]:
    if b"foreword:" not in source.data:
        return
    spans = list(texts)
    for match in _YAML_COMMENT.finditer(source.text):
        place = source.characters(match.start(), match.end())
        if any(start <= place.start < stop for start, stop in spans):
            continue
        line = source.line_text(place.line)
        found = parse_suppression(match.group(), place, alone=line.strip() == match.group().strip())
        if found is not None:
            yield found


def _texts(source: SourceFile) -> Iterator[Span]:
    """The bytes of texts in which `#` opens no comment: quoted ones, and those of several lines."""
    pending = [compose(source.path, source.text)]
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.MappingNode):
            pending += [each for pair in node.value for each in pair]
        elif isinstance(node, yaml.SequenceNode):
            pending += node.value
        elif isinstance(node, yaml.ScalarNode) and node.style:
            # What stands behind a block's `|` may be a comment.
            opens = (node.start_mark.line + 1, 0) if node.style in _BLOCK else _at(node.start_mark)
            yield _offset(source, *opens), _offset(source, *_at(node.end_mark))


def _at(mark: yaml.Mark) -> tuple[int, int]:
    return mark.line, mark.column


def _offset(source: SourceFile, line: int, column: int) -> int:
    """The byte at a line and a character in it, both from 0."""
    if line >= len(source.line_starts):
        return len(source.data)
    return source.character_place(line + 1, column + 1).start
