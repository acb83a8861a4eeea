"""Agent files: YAML in, typed and checked `Agent` out. Nothing is run here.

A file names a template, instructions, tools and limits. What a tool does is the gateway's to know;
here it is only named: a built-in one, one of an MCP server, or another agent. `docs/agents.md`
describes the format.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypedDict

import yaml

from prompts.agent import (
    BUILT_IN,
    LIMITS,
    Agent,
    AgentTool,
    BuiltInTool,
    Limits,
    McpTools,
    StepLimits,
    ToolEntry,
)
from prompts.template_file import IDENTIFIER, NAME, VERSION_DIGITS
from prompts.yaml_nodes import NodeReader, compose, decode

REQUIRED = ("name", "version")
OPTIONAL = (
    "description", "template", "variables", "instructions", "tools", "limits", "temperature",
    "parallel_tool_calls",
)  # fmt: skip

# An agent file and no template: what only it has, and nothing that only the other has.
_OWN = re.compile(
    rb"^(?:description|instructions|limits|template|temperature|parallel_tool_calls)[ \t]*:"
    rb"|^tools[ \t]*:[ \t]*(?:\[|#|\r?$)",
    re.MULTILINE,
)
_TEMPLATES = re.compile(rb"^segments[ \t]*:", re.MULTILINE)


class _Spot(TypedDict):
    line: int
    column: int


def is_agent_file(data: bytes) -> bool:
    """Whether a YAML file says that it is an agent, be it a faulty one."""
    return _OWN.search(data) is not None and _TEMPLATES.search(data) is None


def parse_agent(path: Path, data: bytes) -> Agent:
    """The agent that a file's bytes describe.

    Raises:
        TemplateSyntaxError: with line and column, whatever is wrong with the file.
    """
    return _AgentReader(path).agent(compose(path, decode(path, data)))


class _AgentReader(NodeReader):
    """Walks the nodes of one file, so that each complaint knows its place."""

    def agent(self, node: yaml.Node) -> Agent:
        fields = self.fields(node, required=REQUIRED, optional=OPTIONAL)
        name = self.name(fields["name"])
        tools = self.tools(fields["tools"], name) if "tools" in fields else ()
        given: dict[str, object] = {}
        for field, read in self._readers().items():
            if field in fields:
                given[field] = read(fields[field])
        return Agent(
            name=name,
            version=self.integer(fields["version"], 1, 10**VERSION_DIGITS - 1),
            path=self.path,
            tools=tools,
            places=_places(node),
            **given,  # type: ignore[arg-type]
        )

    def _readers(self) -> Mapping[str, Callable[[yaml.Node], object]]:
        return {
            "description": self.text,
            "template": self.text,
            "variables": self.variables,
            "instructions": self.text,
            "limits": self.limits,
            "temperature": lambda node: self.number(node, 0, 2),
            "parallel_tool_calls": self.boolean,
        }

    def name(self, node: yaml.Node) -> str:
        name = self.text(node)
        if not NAME.fullmatch(name):
            problem = "a name is lower-case letters, digits, - and _, at most 64, a letter first"
            raise self.fail(node, problem)
        return name

    def variables(self, node: yaml.Node) -> Mapping[str, str]:
        values: dict[str, str] = {}
        for key, value in self.pairs(node):
            name = self.text(key)
            if not IDENTIFIER.fullmatch(name):
                problem = "a variable is lower-case letters, digits and _, a letter first"
                raise self.fail(key, problem)
            if name in values:
                raise self.fail(key, f"variable {name!r} is given twice")
            values[name] = self.text(value)
        return values

    def tools(self, node: yaml.Node, agent: str) -> tuple[ToolEntry, ...]:
        entries: dict[tuple[str, str], ToolEntry] = {}
        for item in self.sequence(node):
            entry = self.tool(item)
            if isinstance(entry, AgentTool) and entry.agent == agent:
                raise self.fail(item, "an agent can't be its own tool")
            if entry.key in entries:
                kind, name = entry.key
                raise self.fail(item, f"{kind} {name!r} is listed twice: keep one of them")
            entries[entry.key] = entry
        return tuple(entries.values())

    def tool(self, node: yaml.Node) -> ToolEntry:
        if isinstance(node, yaml.ScalarNode):
            return self.built_in(node, self.text(node), None)
        names = [self.text(key) for key, _ in self.pairs(node)]
        if "mcp" in names:
            return self.mcp(node)
        if "agent" in names:
            fields = self.fields(node, required=("agent",), optional=())
            return AgentTool(agent=self.name(fields["agent"]), **_spot(node))
        if len(names) != 1:
            raise self.fail(node, "a tool is one of: search, read_document, mcp: NAME, agent: NAME")
        [(key, value)] = self.pairs(node)
        return self.built_in(key, names[0], value)

    def built_in(self, node: yaml.Node, name: str, options: yaml.Node | None) -> BuiltInTool:
        if name not in BUILT_IN:
            known = ", ".join((*BUILT_IN, "mcp: NAME", "agent: NAME"))
            raise self.fail(node, f"there is no built-in tool {name!r}; a tool is one of: {known}")
        if options is None:
            return BuiltInTool(name=name, **_spot(node))
        optional = ("collections", "passages") if name == "search" else ("collections",)
        fields = self.fields(options, required=(), optional=optional)
        passages = fields.get("passages")
        return BuiltInTool(
            name=name,
            collections=self.names(fields["collections"]) if "collections" in fields else (),
            passages=None if passages is None else self.integer(passages, 1, 50),
            **_spot(node),
        )

    def mcp(self, node: yaml.Node) -> McpTools:
        optional = ("only", "idempotent", "trust_hints")
        fields = self.fields(node, required=("mcp",), optional=optional)
        only = self.names(fields["only"]) if "only" in fields else None
        idempotent = self.names(fields["idempotent"]) if "idempotent" in fields else ()
        for name in idempotent:
            if only is not None and name not in only:
                raise self.fail(fields["idempotent"], f"{name!r} is not among `only`")
        return McpTools(
            server=self.text(fields["mcp"]),
            only=only,
            idempotent=idempotent,
            trust_hints="trust_hints" in fields and self.boolean(fields["trust_hints"]),
            **_spot(node),
        )

    def names(self, node: yaml.Node) -> tuple[str, ...]:
        names = [self.text(item) for item in self.sequence(node)]
        if not names:
            raise self.fail(node, "name at least one, or leave this out")
        for name in names:
            if names.count(name) > 1:
                raise self.fail(node, f"{name!r} is named twice")
        return tuple(names)

    def limits(self, node: yaml.Node) -> Limits:
        fields = self.fields(node, required=(), optional=(*LIMITS, "step"))
        step = fields.pop("step", None)
        return Limits(
            **{name: self.integer(value, 1, LIMITS[name]) for name, value in fields.items()},
            step=StepLimits() if step is None else self.step_limits(step),
        )

    def step_limits(self, node: yaml.Node) -> StepLimits:
        names = ("tokens", "seconds", "tool_calls")
        fields = self.fields(node, required=(), optional=names)
        return StepLimits(
            **{name: self.integer(value, 1, LIMITS[name]) for name, value in fields.items()}
        )

    def integer(self, node: yaml.Node, least: int, most: int) -> int:
        problem = f"expected a whole number from {least} to {most:,}"
        if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:int":
            raise self.fail(node, problem)
        digits = node.value
        if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(most)):
            raise self.fail(node, problem)
        value = int(digits)
        if not least <= value <= most:
            raise self.fail(node, problem)
        return value

    def number(self, node: yaml.Node, least: float, most: float) -> float:
        problem = f"expected a number from {least:g} to {most:g}"
        kinds = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        if not isinstance(node, yaml.ScalarNode) or node.tag not in kinds:
            raise self.fail(node, problem)
        try:
            value = float(node.value)
        except ValueError as error:  # YAML's other spellings: 0x1f, 1_000, .inf
            raise self.fail(node, problem) from error
        if not least <= value <= most:
            raise self.fail(node, problem)
        return value


def _places(node: yaml.Node) -> dict[str, tuple[int, int]]:
    """Where each field's value stands, or its key where the value is a text of several lines."""
    places: dict[str, tuple[int, int]] = {}
    for name, value in node.value:
        is_block = isinstance(value, yaml.ScalarNode) and value.style in ("|", ">")
        places[name.value] = _mark(name if is_block else value)
        if isinstance(value, yaml.MappingNode):
            places |= {f"{name.value}.{key.value}": _mark(key) for key, _ in value.value}
    return places


def _spot(node: yaml.Node) -> _Spot:
    line, column = _mark(node)
    return {"line": line, "column": column}


def _mark(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
