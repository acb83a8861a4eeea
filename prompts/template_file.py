"""Template files: YAML in, typed and checked `Template` out. Nothing is sent here.

A file names a template and its version, declares variables with a type and a volatility, and lists
segments in the order they are sent. A segment is either Jinja text under one role, or `messages:`
with the name of a `messages` variable, which expands to that conversation. `docs/templates.md`
describes the format.
"""

import re
from pathlib import Path

import jinja2
import yaml

from prompts.environment import RENDER_ERRORS, template_environment
from prompts.errors import TemplateSyntaxError, TemplateVolatilityError
from prompts.formats import DateFormat, NumberFormat, parse_number_format
from prompts.invisible import InvisibleKind
from prompts.segments import Volatility
from prompts.source_map import SourceMap
from prompts.template import TEXT_TYPES, Segment, Template, Variable, VariableType
from prompts.template_body import Body, BodyError, check_body, compile_body, parse_body
from prompts.yaml_nodes import NodeReader, compose, decode

NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,63}")
VERSION_DIGITS = 9
ROLES = ("system", "user", "assistant")
# Names that mean something else in a segment's text.
RESERVED = frozenset({
    "and", "caller", "else", "elif", "false", "if", "in", "is", "loop", "namespace", "none", "not",
    "or", "range", "self", "super", "true", "varargs", "kwargs",
})  # fmt: skip
_VERSION = re.compile(rf"[1-9][0-9]{{0,{VERSION_DIGITS - 1}}}")
_VOLATILITIES = {level.label: level for level in Volatility}


def parse_template(path: Path, data: bytes, *, checked: bool = True) -> Template:
    """The template that a file's bytes describe.

    Unless `checked`, what a linter reports on by itself is let pass (undeclared variables, a
    volatility that is too low, invisible characters, calls) and segments have no `code`.

    Raises:
        TemplateSyntaxError: with line and column, whatever is wrong with the file.
        TemplateVolatilityError: a segment uses a variable that changes more often than it says.
    """
    text = decode(path, data)
    return _TemplateReader(path, text, checked=checked).template(compose(path, text))


class _TemplateReader(NodeReader):
    """Walks the nodes of one file, so that each complaint knows its place."""

    def __init__(self, path: Path, file: str, *, checked: bool) -> None:
        super().__init__(path)
        self._file = file
        self._checked = checked
        self._environment = template_environment()
        self._variables: dict[str, Variable] = {}

    def template(self, node: yaml.Node) -> Template:
        fields = self.fields(
            node, required=("name", "version", "segments"), optional=("variables", "tools")
        )
        name = self.text(fields["name"])
        if not NAME.fullmatch(name):
            problem = "a name is lower-case letters, digits, - and _, at most 64, a letter first"
            raise self.fail(fields["name"], problem)
        version = self.version(fields["version"])
        if "variables" in fields:
            self.read_variables(fields["variables"])
        return Template(
            name=name,
            version=version,
            path=self.path,
            variables=self._variables,
            segments=self.segments(fields["segments"]),
            tools=self.tools(fields["tools"]) if "tools" in fields else None,
        )

    def read_variables(self, node: yaml.Node) -> None:
        for key, value in self.pairs(node):
            name = self.text(key)
            if not IDENTIFIER.fullmatch(name):
                problem = "a variable is lower-case letters, digits and _, a letter first"
                raise self.fail(key, problem)
            if name in RESERVED:
                raise self.fail(key, f"{name!r} means something else in Jinja: rename the variable")
            if name in self._variables:
                raise self.fail(key, f"variable {name!r} is declared twice")
            self._variables[name] = self.variable(key, name, value)

    def variable(self, key: yaml.Node, name: str, node: yaml.Node) -> Variable:
        fields = self.fields(
            node, required=("type", "volatility"), optional=("optional", "format", "normalize")
        )
        kind = self.one_of(fields["type"], {kind.value: kind for kind in VariableType})
        if "normalize" in fields and kind not in TEXT_TYPES:
            types = ", ".join(TEXT_TYPES)
            raise self.fail(fields["normalize"], f"normalize is for these types: {types}")
        return Variable(
            name=name,
            type=kind,
            volatility=self.one_of(fields["volatility"], _VOLATILITIES),
            optional="optional" in fields and self.boolean(fields["optional"]),
            format=self.format(node, fields.get("format"), kind),
            normalize="normalize" not in fields or self.boolean(fields["normalize"]),
            line=key.start_mark.line + 1,
            column=key.start_mark.column + 1,
        )

    def format(
        self, variable: yaml.Node, node: yaml.Node | None, kind: VariableType
    ) -> NumberFormat | DateFormat | None:
        if kind is VariableType.DATE:
            forms = {form.value: form for form in DateFormat}
            return self.one_of(node, forms) if node else DateFormat.ISO
        if kind is VariableType.NUMBER:
            if node is None:
                raise self.fail(variable, 'a number needs a format, for example ".2f"')
            form = parse_number_format(self.text(node))
            if form is None:
                raise self.fail(
                    node, 'a number\'s format is ".2f", ",.2f" or ".1%", 0 to 20 digits'
                )
            return form
        if node is not None:
            raise self.fail(node, "only numbers and dates have a format")
        return None

    def tools(self, node: yaml.Node) -> str:
        return self.declared(node, VariableType.TOOLS)

    def declared(self, node: yaml.Node, kind: VariableType) -> str:
        name = self.text(node)
        if name not in self._variables or self._variables[name].type is not kind:
            problem = f"{name!r} is not declared as a {kind.value} variable"
            raise self.fail(node, f"{problem}: add it under variables with `type: {kind.value}`")
        return name

    def segments(self, node: yaml.Node) -> tuple[Segment, ...]:
        segments: dict[str, Segment] = {}
        for item in self.sequence(node):
            segment = self.segment(item)
            if segment.id in segments:
                raise self.fail(item, f"two segments are called {segment.id!r}: rename one of them")
            segments[segment.id] = segment
        if not segments:
            raise self.fail(node, "a template needs at least one segment")
        return tuple(segments.values())

    def segment(self, node: yaml.Node) -> Segment:
        fields = self.fields(
            node, required=("id", "volatility"), optional=("role", "text", "messages", "allow")
        )
        name = self.text(fields["id"])
        if not IDENTIFIER.fullmatch(name):
            raise self.fail(fields["id"], "a segment's id is lower-case letters, digits and _")
        volatility = self.one_of(fields["volatility"], _VOLATILITIES)
        if "messages" in fields:
            return self.messages_segment(node, fields, name, volatility)
        if "role" not in fields or "text" not in fields:
            raise self.fail(node, "a segment needs role and text, or messages")
        return self.text_segment(node, fields, name, volatility)

    def messages_segment(
        self, node: yaml.Node, fields: dict[str, yaml.Node], name: str, volatility: Volatility
    ) -> Segment:
        if len(fields) > 3:
            raise self.fail(node, "a segment has either messages, or role and text, not both")
        variable = self.declared(fields["messages"], VariableType.MESSAGES)
        if self.too_volatile(variable, volatility):
            mark = fields["messages"].start_mark
            line, column = mark.line + 1, mark.column + 1
            raise TemplateVolatilityError(self.path, line, column, name, variable)
        return Segment(
            id=name,
            volatility=volatility,
            line=node.start_mark.line + 1,
            messages=variable,
            uses=(variable,),
        )

    def text_segment(
        self, node: yaml.Node, fields: dict[str, yaml.Node], name: str, volatility: Volatility
    ) -> Segment:
        role = self.one_of(fields["role"], {role: role for role in ROLES})
        source = self.text(fields["text"])
        assert isinstance(fields["text"], yaml.ScalarNode)
        places = SourceMap(self._file, fields["text"])
        allow = self.allowed(fields.get("allow"))
        try:
            body = parse_body(self._environment, source, checked=self._checked)
            code = self.code(source, body, allow) if self._checked else None
            constant = _constant(body, code)
        except BodyError as error:
            place = places.position(error.offset)
            raise TemplateSyntaxError(self.path, place.line, place.column, error.problem) from error
        for variable, offset in body.uses.items():
            if self.too_volatile(variable, volatility):
                place = places.position(offset)
                raise TemplateVolatilityError(self.path, place.line, place.column, name, variable)
        return Segment(
            id=name,
            volatility=volatility,
            line=node.start_mark.line + 1,
            role=role,
            source=source,
            uses=tuple(body.uses),
            allow=allow,
            constant=constant,
            code=code,
            source_map=places,
        )

    def code(self, source: str, body: Body, allow: frozenset[InvisibleKind]) -> jinja2.Template:
        check_body(source, body, self._variables, allow)
        return compile_body(self._environment, body)

    def allowed(self, node: yaml.Node | None) -> frozenset[InvisibleKind]:
        kinds = {kind.value: kind for kind in InvisibleKind}
        if node is None:
            return frozenset()
        return frozenset(self.one_of(item, kinds) for item in self.sequence(node))

    def too_volatile(self, variable: str, volatility: Volatility) -> bool:
        return self._checked and self._variables[variable].volatility > volatility

    def version(self, node: yaml.Node) -> int:
        if node.tag != "tag:yaml.org,2002:int" or not _VERSION.fullmatch(node.value):
            raise self.fail(node, "version is a whole number from 1")
        return int(node.value)


def _constant(body: Body, code: jinja2.Template | None) -> str | None:
    """What the text always renders to, if it uses no variable."""
    if (literal := body.literal) is not None:
        return literal
    if body.uses or code is None:
        return None
    try:
        return code.render()
    except RENDER_ERRORS as error:
        raise BodyError(0, f"the text can't be rendered: {error}") from error
