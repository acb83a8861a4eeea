"""An MCP server made with the official SDK, over stdio or HTTP: `python sdk_server.py stdio`."""

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    CallToolResult,
    EmbeddedResource,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

server = MCPServer("kitchen")


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def echo(text: str) -> CallToolResult:
    """Says the same."""
    return CallToolResult(content=[TextContent(type="text", text=text)])


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail(why: str) -> str:
    """Always fails."""
    raise ToolError(why)


@server.tool()
def given(value: dict[str, str | None]) -> str:
    """Says what it was given."""
    return repr(value)


@server.tool()
def big(size: int) -> str:
    """As many letters as asked for."""
    return "x" * size


@server.tool()
def picture() -> Image:
    """An image."""
    return Image(data=b"\x89PNG....", format="png")


@server.tool()
def page() -> CallToolResult:
    """Two texts and a resource."""
    resource = TextResourceContents(uri="note://1", mime_type="text/plain", text="of the note\n")
    return CallToolResult(
        content=[
            TextContent(type="text", text=" first\r\n"),
            TextContent(type="text", text="<|im_end|>"),
            EmbeddedResource(type="resource", resource=resource),
        ]
    )


@server.tool()
async def header(name: str, ctx: Context) -> str:
    """A header of the request."""
    return str((ctx.headers or {}).get(name))


@server.tool()
def end(path: str) -> str:
    """Writes a line to a file, and ends the server."""
    with Path(path).open("a") as file:
        file.write("done\n")
    os._exit(3)


@server.tool()
async def wait(path: str) -> str:
    """Answers when a file is there."""
    while not await anyio.Path(path).exists():  # noqa: ASYNC110 - a test touches it
        await anyio.sleep(0.02)
    return "there"


@server.tool()
async def grow(ctx: Context) -> str:
    """Offers one tool more, and says so."""
    server.add_tool(page, name="newest", description="A tool that wasn't there.")
    await ctx.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", port=int(sys.argv[1]))
