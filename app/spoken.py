"""The message that a model's answer is, put together from its parts as they were passed on."""

from dataclasses import dataclass, field
from typing import Any

from prompts import Message, ToolCall


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SpokenAnswer:
    """Collects the first answer of a response; whole messages and deltas have one shape."""

    _content: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _calls: dict[int, _Call] = field(default_factory=dict)

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

    @property
    def text(self) -> str:
        """What it says to the user."""
        return "".join(self._content)

    def message(self) -> Message:
        """The whole, as a client would send it back."""
        return Message(
            role="assistant",
            content=self.text,
            reasoning="".join(self._reasoning) or None,
            tool_calls=tuple(
                ToolCall(id=call.id, name=call.name, arguments="".join(call.arguments))
                for _, call in sorted(self._calls.items())
            ),
        )
