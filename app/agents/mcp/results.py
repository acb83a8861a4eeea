"""What a call came to → what the model is shown. Pure; texts stay byte for byte.

Whatever isn't text is named in square brackets: its kind, its type, its size. A server can write
such a line itself; a model has no reason to believe either more.
"""

import base64
from collections.abc import Iterator

import mcp_types as types

from app.agents.tools import ToolResult
from prompts.canonical import canonical_json


def shown(result: types.CallToolResult, *, max_bytes: int) -> ToolResult:
    """The texts, a line feed between two, other content named where it stood."""
    parts = list(_parts(result))
    try:
        text = "\n".join(parts)
        size = len(text.encode())
    except UnicodeEncodeError:
        return ToolResult(
            text="The tool ran, but its result is no Unicode text and was dropped.", is_error=True
        )
    if size > max_bytes:
        return ToolResult(
            text=f"The tool ran, but its result of {size:,} bytes is larger than the {max_bytes:,} "
            "that are taken, and was dropped. Ask for less at a time.",
            is_error=True,
        )
    return ToolResult(text=text, is_error=bool(result.is_error))


def _parts(result: types.CallToolResult) -> Iterator[str]:
    for block in result.content:
        yield from _block(block)
    if not result.content and result.structured_content is not None:
        # A server says the same in its texts; this one gave no text.
        yield canonical_json(result.structured_content)


def _block(block: types.ContentBlock) -> Iterator[str]:
    match block:
        case types.TextContent():
            yield block.text
        case types.ImageContent():
            yield f"[image, {block.mime_type}, {_size(block.data)}: not shown]"
        case types.AudioContent():
            yield f"[audio, {block.mime_type}, {_size(block.data)}: not shown]"
        case types.ResourceLink():
            kind = f", {block.mime_type}" if block.mime_type else ""
            yield f"[link to a resource, {block.name}{kind}: {block.uri}]"
        case types.EmbeddedResource():
            yield from _resource(block.resource)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> Iterator[str]:
    kind = f", {resource.mime_type}" if resource.mime_type else ""
    match resource:
        case types.TextResourceContents():
            yield f"[resource{kind}: {resource.uri}]"
            yield resource.text
        case types.BlobResourceContents():
            yield f"[resource{kind}, {_size(resource.blob)}: {resource.uri}: not shown]"


def _size(data: str) -> str:
    try:
        return f"{len(base64.b64decode(data, validate=True)):,} bytes"
    except ValueError:
        return "not base64"
