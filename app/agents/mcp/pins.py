"""`NAME.tools.json`, beside an agent's file: what its MCP servers' tools were when somebody looked.

The file is made to be reviewed and kept as the agent's own file is: a line for each tool, and its
bytes depend on nothing but the tools. A digest stands beside each list, so that what was edited by
hand, or merged badly, is noticed.
"""

from collections.abc import Mapping
from pathlib import Path

from app.agents.mcp.errors import McpPinError
from app.agents.mcp.listing import Listing, RemoteTool
from app.stack.files import write_whole
from prompts.canonical import JSON, canonical_json, canonical_value, parse_json

_FORMAT = 1


def read_pins(path: Path, agent: str) -> Mapping[str, Listing]:
    """An agent's pinned lists by server; none where there is no file.

    Raises:
        McpPinError: the file isn't one, or was changed by hand.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise McpPinError("*", agent, f"{path} can't be read: {error}") from error
    try:
        servers = _mapping(_mapping(canonical_value(parse_json(text)))["servers"])
        return {server: _listing(server, agent, _mapping(servers[server])) for server in servers}
    except (KeyError, TypeError, ValueError) as error:
        raise McpPinError("*", agent, f"{path} is no file of pins: {error}") from error


def write_pins(path: Path, pins: Mapping[str, Listing]) -> None:
    """Writes them, all at once."""
    write_whole(path, pins_text(pins).encode(), mode=0o644)


def pins_text(pins: Mapping[str, Listing]) -> str:
    """The file's text: one for equal tools, and a line for each."""
    lists = [_list_text(server, pins[server]) for server in sorted(pins)]
    return f'{{"format":{_FORMAT},"servers":{{\n' + ",\n".join(lists) + "\n}}\n"


def _list_text(server: str, listing: Listing) -> str:
    head = f'{canonical_json(server)}:{{"sha256":"{listing.sha256}","tools":['
    return head + ",".join(f"\n{canonical_json(tool)}" for tool in listing.as_json()) + "\n]}"


def _listing(server: str, agent: str, entry: dict[str, JSON]) -> Listing:
    tools = entry["tools"]
    if not isinstance(tools, list):
        raise TypeError(f"`tools` of {server} is no list")
    listing = Listing(_tool(_mapping(tool)) for tool in tools)
    if listing.sha256 != entry["sha256"]:
        raise McpPinError(server, agent, "its digest isn't that of its tools: it was edited")
    return listing


def _tool(entry: dict[str, JSON]) -> RemoteTool:
    hints = _mapping(entry["hints"])
    return RemoteTool(
        name=_text(entry["name"]),
        description=_text(entry["description"]),
        parameters=_mapping(entry["parameters"]),
        idempotent_hint=hints["idempotent"] is True,
        read_only_hint=hints["read_only"] is True,
    )


def _mapping(value: JSON) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} is no object")
    return value


def _text(value: JSON) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value
