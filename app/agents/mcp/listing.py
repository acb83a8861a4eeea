"""A server's tools as a model is told of them: one order, one spelling, one digest.

Pure: what a server sends comes in as plain values, and what is refused is refused here.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from app.agents.mcp.errors import McpToolsError
from prompts.canonical import JSON, canonical_json, parse_json
from prompts.tools import canonical_tool

MAX_TOOLS = 128
_MAX_LIST_BYTES = 2**18
_MAX_NAME = 128
# What OpenAI's API takes as the name of a function.
_MAX_CALLED = 64
_NOT_IN_A_NAME = re.compile("[^A-Za-z0-9_-]")
# A reader of the pin doesn't see them, and a model does: controls, zero-width and bidirectional
# marks, Unicode's tags. The zero-width joiner stays: emoji are made with it.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTool:
    """One tool as a server told of it, unchecked."""

    name: str
    description: str | None
    schema: Mapping[str, object]
    idempotent_hint: bool = False
    read_only_hint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTool:
    """One tool, in canonical spelling.

    Attributes:
        name: the server's own.
        parameters: JSON schema of its arguments.
        idempotent_hint: what the server says of itself, and nobody has to believe.
        read_only_hint: the same.
    """

    name: str
    description: str
    parameters: Mapping[str, JSON]
    idempotent_hint: bool = False
    read_only_hint: bool = False

    def as_json(self) -> dict[str, JSON]:
        """What is pinned of it."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
            "hints": {"idempotent": self.idempotent_hint, "read_only": self.read_only_hint},
        }


class Listing:
    """Tools by name. Two that are equal have equal bytes, whatever order they came in."""

    def __init__(self, tools: Iterable[RemoteTool]) -> None:
        self.tools = tuple(sorted(tools, key=lambda tool: tool.name))
        self.names = frozenset(tool.name for tool in self.tools)

    @property
    def sha256(self) -> str:
        """Of the canonical JSON of all that is pinned."""
        return hashlib.sha256(canonical_json(self.as_json()).encode()).hexdigest()

    def as_json(self) -> list[JSON]:
        """What is pinned."""
        return [tool.as_json() for tool in self.tools]


def check_listing(server: str, told: Iterable[ToldTool]) -> Listing:
    """A server's tools, fit to be shown to a model.

    Raises:
        McpToolsError: one isn't, two have one name, they are too many, or their list is too long.
    """
    listing = Listing(_remote(server, tool) for tool in told)
    if len(listing.tools) > MAX_TOOLS:
        raise McpToolsError(server, f"they are {len(listing.tools)}; {MAX_TOOLS} are taken")
    for tool, following in pairwise(listing.tools):
        if tool.name == following.name:
            raise McpToolsError(server, f"two are called {tool.name!r}")
    size = len(canonical_json(listing.as_json()).encode())
    if size > _MAX_LIST_BYTES:
        raise McpToolsError(
            server, f"their list takes {size:,} bytes; {_MAX_LIST_BYTES:,} are taken"
        )
    return listing


def _remote(server: str, told: ToldTool) -> RemoteTool:
    name = told.name
    if not name or len(name) > _MAX_NAME:
        raise McpToolsError(server, f"a name of {len(name)} characters; 1 to {_MAX_NAME} are taken")
    if not name.isascii() or not name.isprintable() or " " in name:
        raise McpToolsError(server, f"the name {name!r} is not plain ASCII without spaces")
    given = {
        "name": name,
        "description": told.description or "",
        "parameters": dict(told.schema),
    }
    try:
        spelled = parse_json(canonical_tool({"type": "function", "function": given}).json)
    except ValueError as error:
        raise McpToolsError(server, f"{name!r} {error}") from error
    assert isinstance(spelled, dict)
    function = spelled["function"]
    assert isinstance(function, dict)
    description, parameters = function["description"], function["parameters"]
    assert isinstance(description, str)
    assert isinstance(parameters, dict)
    _check_seen(server, name, function)
    return RemoteTool(
        name=name,
        description=description,
        parameters=parameters,
        idempotent_hint=told.idempotent_hint,
        read_only_hint=told.read_only_hint,
    )


def called(server: str, tool: str) -> str:
    """The name by which a model calls a server's tool.

    The server's name stands in front, so that no server can take the place of another one's tool,
    or of one that is built in.
    """
    whole = f"{server}__{_NOT_IN_A_NAME.sub('_', tool)}"
    if len(whole) <= _MAX_CALLED and whole.endswith(tool):
        return whole
    digest = hashlib.sha256(tool.encode()).hexdigest()[:8]
    return f"{whole[: _MAX_CALLED - 9]}_{digest}"


def differences(pinned: Listing, found: Listing) -> list[str]:
    """What to tell of two lists that differ; nothing where they don't."""
    before = {tool.name: tool for tool in pinned.tools}
    now = {tool.name: tool for tool in found.tools}
    told = [f"{name!r} is new" for name in sorted(now.keys() - before.keys())]
    told += [f"{name!r} is gone" for name in sorted(before.keys() - now.keys())]
    for name in sorted(before.keys() & now.keys()):
        parts = list(_changed(before[name], now[name]))
        if parts:
            told.append(f"{name!r} has another {' and '.join(parts)}")
    return told


def _changed(before: RemoteTool, now: RemoteTool) -> Iterator[str]:
    if before.description != now.description:
        yield "description"
    if canonical_json(dict(before.parameters)) != canonical_json(dict(now.parameters)):
        yield "schema"
    if (before.idempotent_hint, before.read_only_hint) != (
        now.idempotent_hint,
        now.read_only_hint,
    ):
        yield "hint"


def _check_seen(server: str, name: str, value: JSON) -> None:
    for text in _texts(value):
        found = _UNSEEN.search(text)
        if found is not None:
            raise McpToolsError(
                server,
                f"{name!r} has U+{ord(found[0]):04X} in it, which nobody sees and a model reads",
            )


def _texts(value: JSON) -> Iterator[str]:
    """Every text in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
