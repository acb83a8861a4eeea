"""A model's own chat template, rendered as transformers and SGLang render it.

Beside the text, `pieces` tells which parts are the template's own and which are a message's or a
tool's: the first may spell control tokens, the second never may.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import jinja2
import orjson

from prompts.call_arguments import arguments_object, wrapped_arguments
from prompts.chat_environment import ChatEnvironment, ToolObject
from prompts.chat_rope import Origin, Rope, tracked
from prompts.chat_shapes import Piece, Shape, Shapes, Structure, cut
from prompts.chat_watch import Watch
from prompts.errors import ChatTemplateError
from prompts.segments import Message, Tool

TOOLS = Origin(None, "tools")
# What a template can call that doesn't give the same again.
_UNSTEADY = ("random", "lipsum")
_TOOL_LISTS_KEPT = 64


class _SeenTools(NamedTuple):
    """A list of tools as templates see it, and its number among those of the template."""

    number: int
    objects: list[ToolObject]


class _ToolLists:
    """The lists of tools that were met last. Threads may share it."""

    def __init__(self) -> None:
        self._last: tuple[tuple[Tool, ...], _SeenTools] = ((), _SeenTools(0, []))
        self._seen: OrderedDict[tuple[Tool, ...], _SeenTools] = OrderedDict()
        self._numbers = count(1)
        self._lock = threading.Lock()

    def seen(self, tools: tuple[Tool, ...]) -> _SeenTools:
        """A list of tools as templates see it."""
        last, seen = self._last
        if last is tools:
            return seen
        if not tools:
            return _SeenTools(0, [])
        with self._lock:
            known = self._seen.get(tools)
            if known is None:
                known = self._seen[tools] = _SeenTools(next(self._numbers), tool_objects(tools))
                if len(self._seen) > _TOOL_LISTS_KEPT:
                    self._seen.popitem(last=False)
            self._seen.move_to_end(tools)
        self._last = (tools, known)
        return known


class ChatTemplate:
    """A compiled chat template with the special tokens it may name. Threads may share it.

    It runs once for conversations that it treats alike: `runs` counts how often it did.
    """

    def __init__(
        self, source: str, special_tokens: Mapping[str, str], *, keeps_shapes: bool = True
    ) -> None:
        """Without shapes, the template runs for each conversation.

        Raises:
            ChatTemplateError: not valid Jinja.
        """
        self.source = source
        self.special_tokens = dict(special_tokens)
        self._environment = ChatEnvironment()
        self.runs = 0
        self._tools = _ToolLists()
        self._shapes = Shapes()
        try:
            self._code = self._environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ChatTemplateError(f"line {error.lineno}: {error.message}") from error
        unsteady = any(word in source for word in _UNSTEADY)
        self._follows = keeps_shapes and self._environment.follows and not unsteady

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
        seen = self._tools.seen(tools)
        if not self._follows:
            return cut(self._attempted(messages, seen.objects, None))
        structure = Structure.of(messages, seen.number)
        made = self._shapes.pieces(structure, messages)
        return self._shaped(messages, seen.objects, structure) if made is None else made

    def followed(
        self, messages: Sequence[Message], tools: tuple[Tool, ...] = ()
    ) -> tuple[Shape, list[Piece]] | None:
        """The pieces of messages with their shape; None where the rendering can't be followed.

        Raises:
            ChatTemplateError: as for `pieces`.
        """
        if not self._follows:
            return None
        seen = self._tools.seen(tools)
        structure = Structure.of(messages, seen.number)
        known = self._shapes.fitting(structure, messages)
        if known is not None:
            return known
        self._shaped(messages, seen.objects, structure)
        return self._shapes.fitting(structure, messages)

    def _shaped(
        self, messages: Sequence[Message], tools: list[ToolObject], structure: Structure
    ) -> list[Piece]:
        """The pieces as the template makes them; their shape is kept."""
        if self._shapes.is_hopeless(structure):
            return cut(self._attempted(messages, tools, None))
        watch = Watch()
        rendered = self._attempted(messages, tools, watch)
        self._shapes.add(structure, Shape.of(rendered, watch) if watch.followed else None)
        return cut(rendered)

    def _attempted(
        self, messages: Sequence[Message], tools: list[ToolObject], watch: Watch | None
    ) -> str:
        self.runs += 1
        try:
            return self._tried(template_messages(messages, watch), tools)
        except ChatTemplateError:
            if not any(_has_odd_arguments(message) for message in messages):
                raise
            # It takes arguments apart, and these can't be.
            return self._tried(template_messages(messages, watch, wraps=True), tools)

    def _tried(self, messages: list[dict[str, Any]], tools: list[ToolObject]) -> str:
        try:
            return self._render(messages, tools)
        except ChatTemplateError:
            if not tools:
                raise
            # As the engine does: templates of an older kind want the bare functions.
            return self._render(messages, [tool["function"] for tool in tools])

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


def text_of(pieces: Sequence[Piece]) -> str:
    """The rendered text."""
    return "".join([piece.text for piece in pieces])


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


def template_messages(
    messages: Sequence[Message], watch: Watch | None = None, *, wraps: bool = False
) -> list[dict[str, Any]]:
    """The messages as SGLang passes them to a chat template, each text with its origin.

    A last message of the assistant becomes one of the user. SGLang refuses calls whose arguments
    are no JSON object; here these stay the text that they are, or with `wraps` become the only
    argument of their call.

    Source: sglang 0.5.23 srt/entrypoints/openai/serving_chat.py `_apply_jinja_template`,
    protocol.py `ChatCompletionMessageGenericParam`, `ToolCall`.
    """
    rope = Rope.of if watch is None else watch.text
    made = [
        _template_message(index, message, rope, wraps=wraps)
        for index, message in enumerate(messages)
    ]
    if made and made[-1]["role"] == "assistant":
        made[-1] = {"role": "user", "content": made[-1]["content"]}
    return made


def _template_message(
    index: int, message: Message, rope: Callable[[str, Origin], Rope], *, wraps: bool
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "role": message.role,
        "content": rope(message.content, Origin(index, "content")),
    }
    if message.role == "user":
        return made
    if message.tool_call_id is not None:
        made["tool_call_id"] = rope(message.tool_call_id, Origin(index, "tool_call_id"))
    if message.name is not None:
        made["name"] = rope(message.name, Origin(index, "name"))
    if message.reasoning is not None:
        made["reasoning_content"] = rope(message.reasoning, Origin(index, "reasoning"))
    if message.tool_calls:
        origin = Origin(index, "tool_calls")
        made["tool_calls"] = [
            {
                "id": Rope.of(call.id, origin),
                "index": None,
                "type": "function",
                "function": {
                    "name": Rope.of(call.name, origin),
                    "arguments": tracked(_arguments(call.arguments, wraps=wraps), origin),
                },
            }
            for call in message.tool_calls
        ]
    return made


def _has_odd_arguments(message: Message) -> bool:
    return any(arguments_object(call.arguments) is None for call in message.tool_calls)


def _arguments(text: str, *, wraps: bool) -> Any:
    given = arguments_object(text)
    if given is not None:
        return given
    return wrapped_arguments(text) if wraps else text


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
