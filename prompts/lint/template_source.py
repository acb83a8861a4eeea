"""Template files (YAML) as prompt sources: what is declared counts more than what a name says."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from prompts.lint.findings import Edit, Place
from prompts.lint.jinja_source import JinjaReader
from prompts.lint.part import Part
from prompts.lint.pieces import Facts, Nature, Value
from prompts.lint.prompt_source import PromptSource
from prompts.lint.source_file import SourceFile
from prompts.lint.vocabulary import Kind, kind_of_name
from prompts.lint.walker import named, walk
from prompts.source_map import SourceMap
from prompts.template import Segment, Template, Variable, VariableType

_TYPE_KINDS = {
    VariableType.DOCUMENTS: Kind.CONTEXT,
    VariableType.MESSAGES: Kind.HISTORY,
}


@dataclass(frozen=True, slots=True)
class SegmentLocator:
    """Maps a segment's text to its YAML scalar."""

    source: SourceFile
    source_map: SourceMap

    def place(self, start: int, stop: int) -> Place:
        first, last = self.source_map.position(start), self.source_map.position(stop)
        return Place(
            path=self.source.path,
            line=first.line,
            column=first.column,
            start=first.byte,
            stop=max(first.byte, last.byte),
        )

    def edit(self, start: int, stop: int, text: str) -> Edit | None:
        found, spelled = self.source_map.bytes_of(start, stop), self.source_map.spell(text)
        if found is None or spelled is None:
            return None
        return Edit(start=found[0], stop=found[1], replacement=spelled.encode())


@dataclass(frozen=True, slots=True)
class LineLocator:
    """Everything stands on one line of the file: a segment that has no text."""

    source: SourceFile
    line: int

    def place(self, start: int, stop: int) -> Place:
        return self.source.line_place(self.line)

    def edit(self, start: int, stop: int, text: str) -> None:
        return None


def template_source(source: SourceFile, template: Template, reader: JinjaReader) -> PromptSource:
    """The prompt that a parsed template describes.

    Raises:
        PromptSyntaxError: a segment is nested too deeply.
    """
    parts = [_part(source, template, segment, reader) for segment in template.segments]
    for index in range(len(parts) - 1, -1, -1):
        if parts[index].role != "user":
            break
        parts[index] = replace(parts[index], last_turn=0)
    return PromptSource(source=source, parts=tuple(parts), template=template)


def _part(source: SourceFile, template: Template, segment: Segment, reader: JinjaReader) -> Part:
    if segment.messages is not None or segment.source_map is None:
        nature = variable_nature(template.variables, segment.messages or "")
        facts = Facts(pieces=[Value(0, 0, nature, nested=False)])
        return Part(
            text="",
            facts=facts,
            locator=LineLocator(source, segment.line),
            segment=segment.id,
            volatility=segment.volatility,
        )
    jinja = reader.read(segment.source)
    return Part(
        text=segment.source,
        facts=walk(jinja, lambda name: variable_nature(template.variables, name)),
        locator=SegmentLocator(source, segment.source_map),
        segment=segment.id,
        role=segment.role,
        allow=segment.allow,
        volatility=segment.volatility,
        jinja=jinja,
    )


def variable_nature(variables: Mapping[str, Variable], name: str) -> Nature:
    """What a variable's declaration and its name say of it."""
    variable = variables.get(name)
    if variable is None:
        return named(name)
    kind = _TYPE_KINDS.get(variable.type) or kind_of_name(name)
    kinds = frozenset({kind}) if kind else frozenset()
    return Nature(kinds=kinds, names=frozenset({name}), declared=variable.volatility)
