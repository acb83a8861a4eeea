"""A completion's answer as clients see it, whole or in parts."""

from typing import Any

import orjson

from app.accounts import JSONObject
from app.errors import AnswerError
from app.sse import event

_OBJECT = "text_completion"
# What the gateway asks the engine for and keeps to itself.
_OURS = frozenset({"token_ids", "prompt_token_ids", "hidden_states"})


class CompletionForm:
    """OpenAI's text completions, as far as one prompt goes.

    What ends a stream (usage, `[DONE]`, an error) is said once for all prompts of a request, so it
    is kept here until the last of them has ended.

    Args:
        id: of the whole answer.
        echoed: the prompt's text, which goes before each answer; None where nobody asked.
        first_choice: the index of the prompt's first answer among those of all prompts.

    Attributes:
        last: the part without choices, once it has come.
        error: what the stream broke off with.
    """

    def __init__(self, id: str, *, echoed: str | None = None, first_choice: int = 0) -> None:
        self.last: JSONObject | None = None
        self.error: AnswerError | None = None
        self._id = id
        self._echoed = echoed
        self._first_choice = first_choice
        self._begun: set[int] = set()

    def whole(self, answer: JSONObject) -> JSONObject:
        """The answer to the prompt, or a part of it."""
        return answer | {
            "id": self._id,
            "object": _OBJECT,
            "choices": [self._choice(choice) for choice in answer.get("choices", ())],
        }

    def begin(self) -> bytes:
        """Nothing: the first event is the engine's first part."""
        return b""

    def part(self, part: JSONObject) -> bytes:
        """A part as one event; the last is kept."""
        spelled = self.whole(part)
        if not spelled["choices"]:
            self.last = spelled
            return b""
        return event(orjson.dumps(spelled))

    def end(self) -> bytes:
        """Nothing: others may not have ended."""
        return b""

    def failed(self, error: AnswerError) -> bytes:
        """Nothing yet: other prompts' parts may be on their way, and the error ends the stream."""
        self.error = error
        return b""

    def _choice(self, choice: dict[str, Any]) -> dict[str, Any]:
        public = {name: value for name, value in choice.items() if name not in _OURS}
        index = int(public.get("index", 0))
        if self._echoed is not None and index not in self._begun:
            public["text"] = self._echoed + str(public.get("text") or "")
        self._begun.add(index)
        public["index"] = index + self._first_choice
        return public
