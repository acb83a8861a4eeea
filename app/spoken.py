"""The message that a model's answer is, put together from its parts as they were passed on."""

from collections.abc import Iterable
from typing import Any

import msgspec

from prompts import Message, ToolCall


class _Call(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: list[str] = msgspec.field(default_factory=list)


class SpokenAnswer(msgspec.Struct):
    """Collects the first answer of a response; whole messages and deltas have one shape."""

    _content: list[str] = msgspec.field(default_factory=list)
    _reasoning: list[str] = msgspec.field(default_factory=list)
    _calls: dict[int, _Call] = msgspec.field(default_factory=dict)

    def add(self, part: dict[str, Any]) -> None:
        """A message, or the next piece of one."""
        if content := part.get("content"):
            self._content.append(content)
        if reasoning := part.get("reasoning_content"):
            self._reasoning.append(reasoning)
        for position, given in enumerate(part.get("tool_calls") or ()):
            call = self._calls.setdefault(given.get("index", position), _Call())
            function = given.get("function") or {}
            call.id = given.get("id") or call.id
            call.name = function.get("name") or call.name
            call.arguments.append(function.get("arguments") or "")

    def say(self, texts: Iterable[str]) -> None:
        """The next pieces of what it says to the user."""
        self._content += texts

    @property
    def text(self) -> str:
        """What it says to the user."""
        return "".join(self._content)

    def message(self) -> Message:
        """The whole, as a client would send it back."""
        content, reasoning = "".join(self._content), "".join(self._reasoning) or None
        if not self._calls:
            return Message(role="assistant", content=content, reasoning=reasoning)
        return Message(
            role="assistant",
            content=content,
            reasoning=reasoning,
            tool_calls=tuple(
                ToolCall(id=call.id, name=call.name, arguments="".join(call.arguments))
                for _, call in sorted(self._calls.items())
            ),
        )
