"""A log's requests in compact columns; each distinct message, tool and piece of text is kept once.

A conversation's later turns repeat its earlier messages, and requests of one template repeat its
text, so that this takes a small part of the log's own size.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from cache.request_log.bodies import LoggedRequest
from cache.request_log.pieces import split_pieces
from prompts import Message, Tool, ToolCall

_DIGEST_BYTES = 16
_UNKNOWN = -1


class LogPrompt(NamedTuple):
    """What is rendered: a list of tools and messages, by their numbers in the `TextStore`."""

    tools: int
    messages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Rich:
    """What few messages have beside role and content."""

    tool_calls: tuple[ToolCall, ...]
    tool_call_id: str | None
    name: str | None
    reasoning: str | None


class TextStore:
    """Distinct messages and tool lists by number; list 0 is the empty one."""

    def __init__(self) -> None:
        self.roles: list[str] = []
        self._contents: list[array[int]] = []
        self._rich: dict[int, _Rich] = {}
        self._message_numbers: dict[bytes, int] = {}
        self._pieces: list[str] = []
        self._piece_numbers: dict[str, int] = {}
        self._tools: list[Tool] = []
        self._tool_numbers: dict[Tool, int] = {}
        self._tool_lists: list[tuple[int, ...]] = [()]
        self._list_numbers: dict[tuple[int, ...], int] = {(): 0}

    def add_message(self, message: Message) -> int:
        """The number of a message; equal messages have one number."""
        rich = self._rich_part(message)
        key = blake2b(
            f"{message.role}\0{message.content}".encode(errors="surrogatepass"),
            digest_size=_DIGEST_BYTES,
        )
        if rich is not None:
            key.update(repr(rich).encode())
        number = self._message_numbers.setdefault(key.digest(), len(self.roles))
        if number == len(self.roles):
            self.roles.append(message.role)
            self._contents.append(self._content_pieces(message.content))
            if rich is not None:
                self._rich[number] = rich
        return number

    def _rich_part(self, message: Message) -> _Rich | None:
        if message.tool_calls or message.tool_call_id or message.reasoning or message.name:
            return _Rich(message.tool_calls, message.tool_call_id, message.name, message.reasoning)
        return None

    def _content_pieces(self, content: str) -> "array[int]":
        numbers = self._piece_numbers
        found = array("I")
        for piece in split_pieces(content):
            number = numbers.setdefault(piece, len(numbers))
            if number == len(self._pieces):
                self._pieces.append(piece)
            found.append(number)
        return found

    def add_tools(self, tools: tuple[Tool, ...]) -> int:
        """The number of a tool list; equal lists in equal order have one number."""
        key = tuple([self._add_tool(tool) for tool in tools])
        number = self._list_numbers.setdefault(key, len(self._tool_lists))
        if number == len(self._tool_lists):
            self._tool_lists.append(key)
        return number

    def _add_tool(self, tool: Tool) -> int:
        number = self._tool_numbers.setdefault(tool, len(self._tools))
        if number == len(self._tools):
            self._tools.append(tool)
        return number

    def message(self, number: int) -> Message:
        """The message of that number."""
        rich = self._rich.get(number)
        content = self.text(number)
        if rich is None:
            return Message(role=self.roles[number], content=content)
        return Message(
            role=self.roles[number],
            content=content,
            tool_calls=rich.tool_calls,
            tool_call_id=rich.tool_call_id,
            name=rich.name,
            reasoning=rich.reasoning,
        )

    def text(self, number: int) -> str:
        """A message's content."""
        pieces = self._pieces
        return "".join([pieces[piece] for piece in self._contents[number]])

    def piece_numbers(self, number: int) -> "array[int]":
        """The pieces of a message's content, by number."""
        return self._contents[number]

    def piece(self, number: int) -> str:
        """The text of a piece."""
        return self._pieces[number]

    def is_plain(self, number: int) -> bool:
        """Whether a message has nothing beside role and content."""
        return number not in self._rich

    def tools(self, number: int) -> tuple[Tool, ...]:
        """The tools of a list, in the order in which they were sent."""
        return tuple(self._tools[tool] for tool in self._tool_lists[number])

    def is_head(self, number: int) -> bool:
        """Whether a message speaks for the operator: system or developer."""
        return self.roles[number] in ("system", "developer")


class RequestTable:
    """All requests of a log in the order of its lines; unknown counts are None."""

    def __init__(self) -> None:
        self.store = TextStore()
        self.lines = array("Q")
        self.starts = array("Q")
        self.stops = array("Q")
        self._tools = array("I")
        self._messages = array("I")
        self._message_starts = array("Q", [0])
        self._outputs = array("q")
        self._labels: list[str] = [""]
        self._label_numbers: dict[str, int] = {"": 0}
        self._salts = array("I")
        self._users = array("I")
        self._prompt_tokens = array("q")
        self._cached_tokens = array("q")
        self._by_response: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.lines)))

    def add(self, request: LoggedRequest, *, line: int, start: int, stop: int) -> None:
        """Append the request of a line (from 1) that takes the log's bytes `start <= i < stop`."""
        add_message = self.store.add_message
        own = [add_message(message) for message in request.messages]
        self._messages.extend(own[: request.instructions])
        self._messages.extend(self._earlier(request.previous_response_id))
        self._messages.extend(own[request.instructions :])
        self._message_starts.append(len(self._messages))
        if request.response_id and request.output:
            self._by_response[request.response_id] = (len(self), request.instructions)
        output = _UNKNOWN if request.output is None else add_message(request.output)
        self._outputs.append(output)
        self._tools.append(self.store.add_tools(request.tools))
        self._salts.append(self._label(request.salt))
        self._users.append(self._label(request.user))
        self._prompt_tokens.append(_or_unknown(request.prompt_tokens))
        self._cached_tokens.append(_or_unknown(request.cached_tokens))
        self.lines.append(line)
        self.starts.append(start)
        self.stops.append(stop)

    def _earlier(self, response_id: str) -> tuple[int, ...]:
        """What `previous_response_id` stands for, where the log holds it: not its instructions."""
        found = self._by_response.get(response_id) if response_id else None
        if found is None:
            return ()
        earlier, instructions = found
        return (*self.prompt(earlier).messages[instructions:], self._outputs[earlier])

    def _label(self, text: str) -> int:
        number = self._label_numbers.setdefault(text, len(self._labels))
        if number == len(self._labels):
            self._labels.append(text)
        return number

    def prompt(self, request: int) -> LogPrompt:
        """What was sent."""
        start, stop = self._message_starts[request], self._message_starts[request + 1]
        return LogPrompt(self._tools[request], tuple(self._messages[start:stop]))

    def output(self, request: int) -> int | None:
        """The answer, as a message of the store."""
        return _known(self._outputs[request])

    def salt(self, request: int) -> int:
        """A number for the request's salt; 0 is none."""
        return self._salts[request]

    def user(self, request: int) -> str:
        """The body's `user`, or that of its metadata."""
        return self._labels[self._users[request]]

    def prompt_tokens(self, request: int) -> int | None:
        """As the engine counted them."""
        return _known(self._prompt_tokens[request])

    def cached_tokens(self, request: int) -> int | None:
        """As the engine reported them."""
        return _known(self._cached_tokens[request])


def _or_unknown(count: int | None) -> int:
    return _UNKNOWN if count is None else count


def _known(count: int) -> int | None:
    return None if count == _UNKNOWN else count
