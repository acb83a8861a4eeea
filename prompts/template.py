"""Template files: YAML in, typed and checked `Template` out. Nothing is rendered here.

A file names a template and its version, declares variables with a type and a volatility, and lists
segments in the order they are sent. A segment is either Jinja text under one role, or `messages:`
with the name of a `messages` variable, which expands to that conversation.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import jinja2
import jinja2.meta
import jinja2.nodes
import yaml

from prompts.environment import template_environment
from prompts.errors import TemplateSyntaxError, TemplateVolatilityError
from prompts.segments import Volatility

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ROLES = ("system", "user", "assistant")

T = TypeVar("T")


class VariableType(StrEnum):
    """What a variable holds."""

    TEXT = "text"
    INTEGER = "integer"
    DOCUMENTS = "documents"
    MESSAGES = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A declared variable. An `optional` one renders as empty when it isn't given."""

    name: str
    type: VariableType
    volatility: Volatility
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of a template: Jinja `source` under `role`, or the `messages` variable it expands.

    `line` is where the segment stands in its file, from 1.
    """

    id: str
    volatility: Volatility
    line: int
    role: str | None = None
    source: str = ""
    messages: str | None = None
    code: jinja2.Template | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A named, versioned list of segments."""

    name: str
    version: int
    path: Path
    variables: dict[str, Variable]
    segments: tuple[Segment, ...]

    @property
    def reference(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"


def parse_template(path: Path, data: bytes) -> Template:
    """The template that a file's bytes describe.

    Raises:
        TemplateSyntaxError: with line and column, whatever is wrong with the file.
        TemplateVolatilityError: a segment uses a variable that changes more often than it says.
    """
    return _Reader(path).template(_compose(path, data))


def _compose(path: Path, data: bytes) -> yaml.Node:
    try:
        node = yaml.compose(data.decode(), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TemplateSyntaxError(path, line, 1, "the file is not UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = f"not valid YAML: {error.problem or error.context}"
        raise TemplateSyntaxError(path, line, column, problem) from error
    except yaml.YAMLError as error:
        raise TemplateSyntaxError(path, 1, 1, f"not valid YAML: {error}") from error
    if node is None:
        raise TemplateSyntaxError(path, 1, 1, "the file is empty; it needs name, version, segments")
    return node


class _Reader:
    """Walks the YAML nodes of one file, so that each complaint knows its place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._environment = template_environment()

    def fail(self, node: yaml.Node, problem: str) -> TemplateSyntaxError:
        mark = node.start_mark
        return TemplateSyntaxError(self._path, mark.line + 1, mark.column + 1, problem)

    def template(self, node: yaml.Node) -> Template:
        fields = self.mapping(
            node, required=("name", "version", "segments"), optional=("variables",)
        )
        name = self.text(fields["name"])
        if not _NAME.fullmatch(name):
            problem = "a name is lower-case letters, digits, - and _, at most 64, a letter first"
            raise self.fail(fields["name"], problem)
        variables = self.variables(fields.get("variables"))
        segments = tuple(
            self.segment(item, variables) for item in self.sequence(fields["segments"])
        )
        self.check_segments(fields["segments"], segments)
        return Template(
            name=name,
            version=self.version(fields["version"]),
            path=self._path,
            variables=variables,
            segments=segments,
        )

    def check_segments(self, node: yaml.Node, segments: tuple[Segment, ...]) -> None:
        if not segments:
            raise self.fail(node, "a template needs at least one segment")
        seen: set[str] = set()
        for item, segment in zip(self.sequence(node), segments, strict=True):
            if segment.id in seen:
                raise self.fail(item, f"two segments are called {segment.id!r}")
            seen.add(segment.id)

    def variables(self, node: yaml.Node | None) -> dict[str, Variable]:
        if node is None:
            return {}
        declared: dict[str, Variable] = {}
        for key, value in self.pairs(node):
            name = self.text(key)
            if not _IDENTIFIER.fullmatch(name):
                raise self.fail(key, "a variable's name is lower-case letters, digits and _")
            if name in declared:
                raise self.fail(key, f"variable {name!r} is declared twice")
            declared[name] = self.variable(name, value)
        return declared

    def variable(self, name: str, node: yaml.Node) -> Variable:
        fields = self.mapping(node, required=("type", "volatility"), optional=("optional",))
        return Variable(
            name=name,
            type=self.one_of(fields["type"], {kind.value: kind for kind in VariableType}),
            volatility=self.volatility(fields["volatility"]),
            optional=self.boolean(fields["optional"]) if "optional" in fields else False,
        )

    def segment(self, node: yaml.Node, variables: dict[str, Variable]) -> Segment:
        fields = self.mapping(
            node, required=("id", "volatility"), optional=("role", "text", "messages")
        )
        segment_id = self.text(fields["id"])
        if not _IDENTIFIER.fullmatch(segment_id):
            raise self.fail(fields["id"], "a segment's id is lower-case letters, digits and _")
        volatility = self.volatility(fields["volatility"])
        if "messages" in fields:
            return self.messages_segment(node, fields, segment_id, volatility, variables)
        if "role" not in fields or "text" not in fields:
            raise self.fail(node, "a segment needs role and text, or messages")
        source, code, used = self.jinja(fields["text"])
        self.check_variables(fields["text"], segment_id, volatility, used, variables)
        return Segment(
            id=segment_id,
            volatility=volatility,
            line=node.start_mark.line + 1,
            role=self.one_of(fields["role"], {role: role for role in _ROLES}),
            source=source,
            code=code,
        )

    def messages_segment(
        self,
        node: yaml.Node,
        fields: dict[str, yaml.Node],
        segment_id: str,
        volatility: Volatility,
        variables: dict[str, Variable],
    ) -> Segment:
        if "role" in fields or "text" in fields:
            raise self.fail(node, "a segment has either messages, or role and text, not both")
        name = self.text(fields["messages"])
        if name not in variables or variables[name].type is not VariableType.MESSAGES:
            raise self.fail(fields["messages"], f"{name!r} is not declared as a messages variable")
        self.check_variables(fields["messages"], segment_id, volatility, {name}, variables)
        return Segment(
            id=segment_id, volatility=volatility, line=node.start_mark.line + 1, messages=name
        )

    def jinja(self, node: yaml.Node) -> tuple[str, jinja2.Template, set[str]]:
        source = self.text(node)
        try:
            tree = self._environment.parse(source)
            code = self._environment.from_string(tree)
        except jinja2.TemplateSyntaxError as error:
            # In a block scalar (| or >) the text starts on the line below the mark.
            block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
            line = node.start_mark.line + error.lineno + (1 if block else 0)
            column = 1 if block else node.start_mark.column + 1
            problem = f"Jinja: {error.message}"
            raise TemplateSyntaxError(self._path, line, column, problem) from error
        return source, code, jinja2.meta.find_undeclared_variables(tree)

    def check_variables(
        self,
        node: yaml.Node,
        segment: str,
        volatility: Volatility,
        used: set[str],
        variables: dict[str, Variable],
    ) -> None:
        for name in sorted(used):
            if name not in variables:
                raise self.fail(node, f"{name!r} is used but not declared under variables")
            if variables[name].volatility > volatility:
                line = node.start_mark.line + 1
                raise TemplateVolatilityError(self._path, line, segment, name)

    def volatility(self, node: yaml.Node) -> Volatility:
        return self.one_of(node, {level.label: level for level in Volatility})

    def version(self, node: yaml.Node) -> int:
        if node.tag != "tag:yaml.org,2002:int" or int(node.value, 0) < 1:
            raise self.fail(node, "version is a whole number from 1")
        return int(node.value, 0)

    def boolean(self, node: yaml.Node) -> bool:
        if node.tag != "tag:yaml.org,2002:bool":
            raise self.fail(node, "expected true or false")
        return str(node.value).lower() in ("true", "yes", "on")

    def one_of(self, node: yaml.Node, choices: dict[str, T]) -> T:
        word = self.text(node)
        if word not in choices:
            raise self.fail(node, f"{word!r} is not one of: {', '.join(choices)}")
        return choices[word]

    def text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str":
            raise self.fail(node, "expected text (quote it if it looks like a number or a date)")
        return str(node.value)

    def sequence(self, node: yaml.Node) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            raise self.fail(node, "expected a list")
        return list(node.value)

    def pairs(self, node: yaml.Node) -> list[tuple[yaml.Node, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            raise self.fail(node, "expected a mapping")
        return list(node.value)

    def mapping(
        self, node: yaml.Node, *, required: tuple[str, ...], optional: tuple[str, ...]
    ) -> dict[str, yaml.Node]:
        fields: dict[str, yaml.Node] = {}
        for key, value in self.pairs(node):
            name = self.text(key)
            if name not in required + optional:
                known = ", ".join(required + optional)
                raise self.fail(key, f"unknown field {name!r}; known here: {known}")
            if name in fields:
                raise self.fail(key, f"{name!r} is given twice")
            fields[name] = value
        for name in required:
            if name not in fields:
                raise self.fail(node, f"{name!r} is missing")
        return fields
