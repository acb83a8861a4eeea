"""Chunks of a streamed chat completion in the form that engines nearly always give them.

Such a chunk is passed on as it came: only what stands before its choices is put in our words, once
for the whole stream. All others are taken apart (`app.answers.public_part`). One that differs from
a chunk before it in plain text alone, as most do, isn't even parsed.

Source: sglang 0.5.23 srt/entrypoints/openai/protocol.py (ChatCompletionStreamResponse).
"""

import re
from typing import Any, NamedTuple

import orjson

_CHOICES = b'"choices":['
_HEAD = ("id", "object", "created", "model", "choices")
_END = b',"logprobs":null,"finish_reason":null,"matched_stop":null}]'
_CONTENT = b'"content":"'
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
# One choice, the first; what it says is text or nothing; it is not the last one, nor are there
# log probabilities or tool calls. Usage, so far, is for us.
_REST = rb'(?:,"usage":(?:null|(\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\})))?\}'
_USUAL = re.compile(
    rb'\{"index":0,"delta":(\{(?:"(?:role|content|reasoning_content)":(?:null|%b),?)*\})'
    rb"%b%b" % (_STRING, re.escape(_END), _REST),
    re.DOTALL,
)
USAGE = re.compile(_REST, re.DOTALL)
"""What stands after a chunk's choices; its group is what is said of the request's tokens."""


class _Plain(NamedTuple):
    """What stands around the text of a chunk that says text alone, in the engine's words and ours.

    What is after the text begins with its closing quote, and ends with the choices.
    """

    before: bytes
    after: bytes
    public_before: bytes
    public_after: bytes


class UsualParts:
    """One stream's chunks.

    Args:
        request_id: what the client calls the answer.
        model: what the client calls the model.
    """

    def __init__(self, *, request_id: str, model: str) -> None:
        self._ours = {"id": request_id, "model": model}
        self._usage: bytes | None = None
        self._head: bytes | None = None
        self._public_head = b""
        self._plain: _Plain | None = None

    def met(self, data: bytes) -> None:
        """A chunk was taken apart: what stands before its choices may stand before others'."""
        if self._head is not None:
            return
        before, found, _ = data.partition(_CHOICES)
        if not found:
            return
        head = before + _CHOICES
        try:
            parsed = orjson.loads(head + b"]}")
        except orjson.JSONDecodeError:
            return
        if tuple(parsed) == _HEAD:
            self._head = head
            self._public_head = b"data: " + orjson.dumps(parsed | self._ours)[: -len(b"]}")]

    def passed_on(self, data: bytes) -> tuple[bytes, dict[str, Any]] | None:
        """A chunk as an event for the client, and what it says; None: it isn't a usual one."""
        head, plain = self._head, self._plain
        if plain is not None and data.startswith(plain.before):
            passed = self._as_before(plain, data)
            if passed is not None:
                return passed
        if head is None or not data.startswith(head):
            return None
        found = _USUAL.fullmatch(data, len(head))
        if found is None:
            return None
        try:
            said = orjson.loads(found[1])
        except orjson.JSONDecodeError:
            return None
        if found[2] is not None:
            self._usage = found[2]
        # Up to the end of the choices.
        rest = data[len(head) : found.end(1) + len(_END)]
        self._learn(head, rest, found.end(1) - len(head), said)
        return b"%b%b}\n\n" % (self._public_head, rest), said

    def _learn(self, head: bytes, rest: bytes, delta_end: int, said: dict[str, Any]) -> None:
        """The next chunk may differ from this one in its text alone."""
        if [name for name, value in said.items() if value is not None] != ["content"]:
            return
        # A quote inside of a text has a backslash before it: this is the field itself.
        text_at = rest.find(_CONTENT) + len(_CONTENT)
        text_end = rest.find(b'"', text_at)
        if b"\\" in rest[text_at:text_end] or text_end > delta_end:
            return
        after = rest[text_end:]
        before = rest[:text_at]
        self._plain = _Plain(head + before, after, self._public_head + before, after + b"}\n\n")

    def _as_before(self, plain: _Plain, data: bytes) -> tuple[bytes, dict[str, Any]] | None:
        """A chunk with another text and another usage; None: it differs in more than that."""
        at = len(plain.before)
        end = data.find(b'"', at)
        if not data.startswith(plain.after, end):
            return None
        raw = data[at:end]
        rest = USAGE.fullmatch(data, end + len(plain.after))
        if rest is None or b"\\" in raw:
            return None
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return None
        if not text.isprintable():  # control characters are no JSON
            return None
        if rest[1] is not None:
            self._usage = rest[1]
        return plain.public_before + raw + plain.public_after, {"content": text}

    @property
    def plain(self) -> _Plain | None:
        """What stands around a text that is passed on without a look at the rest of its chunk."""
        return self._plain

    def learn_usage(self, told: bytes | None) -> None:
        """Keep what a chunk said of its request's tokens."""
        if told:
            self._usage = told

    def usage(self) -> dict[str, Any] | None:
        """What the latest chunk said of its request's tokens, once; None: nothing new."""
        told, self._usage = self._usage, None
        if told is None:
            return None
        try:
            usage = orjson.loads(told)
        except orjson.JSONDecodeError:
            return None
        return usage if isinstance(usage, dict) else None
