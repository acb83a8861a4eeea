"""A model's own chat template, rendered as transformers and SGLang render it.

Beside the text, `pieces` tells which parts are the template's own and which are a message's or a
tool's: the first may spell control tokens, the second never may.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import orjson

from prompts.chat_environment import ChatEnvironment, ToolObject
from prompts.chat_rope import Origin, Rope, tracked
from prompts.errors import ChatTemplateError
from prompts.segments import Message, Tool

TOOLS = Origin(None, "tools")


class Piece(NamedTuple):
    """A part of the rendered text: from `offset` on in its origin, or the template's own."""

    text: str
    origin: Origin | None = None
    offset: int = 0


class ChatTemplate:
    """A compiled chat template with the special tokens it may name. Threads may share it."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """Raises ChatTemplateError: not valid Jinja."""
        self.source = source
        self.special_tokens = dict(special_tokens)
        self._environment = ChatEnvironment()
        self._last_tools: tuple[tuple[Tool, ...], list[ToolObject]] = ((), [])
        try:
            self._code = self._environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ChatTemplateError(f"line {error.lineno}: {error.message}") from error

    def render(self, messages: Sequence[Message], tools: tuple[Tool, ...] = ()) -> str:
        """The text of the messages with the opening of the answer at its end.

        Raises:
            ChatTemplateError: the template refuses the messages, or reads the clock.
        """
        return text_of(self.pieces(messages, tools))

    def pieces(self, messages: Sequence[Message], tools: tuple[Tool, ...] = ()) -> list[Piece]:
        """The rendered text, cut where one origin ends and another begins.

        Raises:
            ChatTemplateError: the template refuses the messages, reads the clock, or makes of a
                content something that can't be told from its own words.
        """
        seen = self._tools(tools)
        made = template_messages(messages)
        try:
            return _cut(self._render(made, seen))
        except ChatTemplateError:
            if not tools:
                raise
            # As the engine does: templates of an older kind want the bare functions.
            return _cut(self._render(made, [tool["function"] for tool in seen]))

    def _render(self, messages: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
        context: dict[str, Any] = {
            "messages": messages,
            "tools": tools or None,
            "documents": None,
            "add_generation_prompt": True,
            **self.special_tokens,
        }
        try:
            return self._code.render(context)
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise ChatTemplateError(str(error)) from error

    def _tools(self, tools: tuple[Tool, ...]) -> list[ToolObject]:
        """The tools as templates see them; those of the last call are kept."""
        known, objects = self._last_tools
        if known != tools:
            objects = tool_objects(tools)
            self._last_tools = (tools, objects)
        return objects


def text_of(pieces: Sequence[Piece]) -> str:
    """The rendered text."""
    return "".join(piece.text for piece in pieces)


def pieces_from(pieces: Sequence[Piece], character: int) -> list[Piece]:
    """The pieces from a character of their text on."""
    rest: list[Piece] = []
    position = 0
    for piece in pieces:
        skipped = max(0, character - position)
        position += len(piece.text)
        if position > character:
            text = piece.text[skipped:]
            rest.append(Piece(text, piece.origin, piece.offset + skipped if piece.origin else 0))
    return rest


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages as SGLang passes them to a chat template, each text with its origin.

    A last message of the assistant becomes one of the user.

    Source: sglang 0.5.23 srt/entrypoints/openai/serving_chat.py `_apply_jinja_template`,
    protocol.py `ChatCompletionMessageGenericParam`, `ToolCall`.

    Raises:
        ChatTemplateError: the arguments of a call are not a JSON object.
    """
    made = [_template_message(index, message) for index, message in enumerate(messages)]
    if made and made[-1]["role"] == "assistant":
        made[-1] = {"role": "user", "content": made[-1]["content"]}
    return made


def _template_message(index: int, message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {
        "role": message.role,
        "content": Rope.of(message.content, Origin(index, "content")),
    }
    if message.role == "user":
        return made
    if message.tool_call_id is not None:
        made["tool_call_id"] = Rope.of(message.tool_call_id, Origin(index, "tool_call_id"))
    if message.name is not None:
        made["name"] = Rope.of(message.name, Origin(index, "name"))
    if message.reasoning is not None:
        made["reasoning_content"] = Rope.of(message.reasoning, Origin(index, "reasoning"))
    if message.tool_calls:
        origin = Origin(index, "tool_calls")
        made["tool_calls"] = [
            {
                "id": Rope.of(call.id, origin),
                "index": None,
                "type": "function",
                "function": {
                    "name": Rope.of(call.name, origin),
                    "arguments": tracked(_arguments(call.arguments), origin),
                },
            }
            for call in message.tool_calls
        ]
    return made


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ChatTemplateError("the arguments of a tool call are not valid JSON") from error
    if not isinstance(arguments, dict):
        raise ChatTemplateError("the arguments of a tool call are not a JSON object")
    return arguments


def tool_objects(tools: Sequence[Tool]) -> list[ToolObject]:
    """The tools as SGLang passes them to a chat template, each text with its origin."""
    return [_tool_object(tool) for tool in tools]


def _tool_object(tool: Tool) -> ToolObject:
    """The object as SGLang dumps it: keys of its own kept in order, absent ones put after them.

    Source: sglang 0.5.23 srt/entrypoints/openai/protocol.py `Function._serialize`, `Tool`.
    """
    given = orjson.loads(tool.json)
    function = given.get("function", {})
    filled = {"description": None, "name": tool.name, "parameters": None} | {
        key: value
        for key, value in function.items()
        if key in ("description", "name", "parameters")
        or (key in ("strict", "defer_loading") and value is not None)
    }
    keys = [key for key in function if key in filled]
    keys += [key for key in filled if key not in function]
    return ToolObject(
        {
            "type": given.get("type", "function"),
            "function": ToolObject({key: tracked(filled[key], TOOLS) for key in keys}),
            "defer_loading": given.get("defer_loading"),
        }
    )


def _cut(rendered: str) -> list[Piece]:
    if not isinstance(rendered, Rope):
        return [Piece(rendered)] if rendered else []
    pieces: list[Piece] = []
    slice_of = rendered.plain_slice
    start = stop = first = 0
    origin: Origin | None = None
    for length, whose, offset in rendered.parts:
        if stop == start or whose != origin or (whose and offset != first + stop - start):
            if stop > start:
                pieces.append(Piece(slice_of(start, stop), origin, first))
            start, origin, first = stop, whose, offset
        stop += length
    return [*pieces, Piece(slice_of(start, stop), origin, first)]
