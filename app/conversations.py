"""What was shown and said in earlier turns of conversations, so that a follow-up only appends.

Clients send their whole conversation again, but only its words. What the gateway put beside them
(the excerpts of each turn, the mode) and the token ids that the model answered with are kept here,
within bounds, under a digest of all that came before. What was forgotten costs a search or some
re-use, never an answer. One event loop owns it.
"""

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from app.schemas import Mode
from prompts import Message, Prompt, PromptTokenizer, TokenizedPrompt, Tool, Transcript
from prompts.errors import ChatTemplateError, TranscriptRewriteError
from retrieval import Excerpt

_DIGEST_BYTES = 16
_ENTRY_BYTES = 500
# A token id in a tuple, and the object for what is written about it.
_TOKEN_BYTES = 8
# Texts from here on are kept once, however many conversations begin with them.
_LONG_CHARACTERS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A user's message as it was put into the prompt when it was the last one.

    Attributes:
        mode: how the collection reached that prompt.
        revision: of the collection when the excerpts were last known to be shown rightly.
        excerpts: what was found for it and not shown before.
        content: the message as the template wrote it, excerpts included.
    """

    mode: Mode
    revision: int
    excerpts: tuple[Excerpt, ...]
    content: str


@dataclass(slots=True, kw_only=True)
class Answered:
    """A prompt and its answer; the transcript of it is made when a follow-up needs it.

    Attributes:
        held_bytes, held_digest: of the ids that the engine held after it, packed.
        transcript: of the prompt; None where that was encoded as its text alone is.
        cuts: those of the prompt's layout: what was encoded then is found again.
    """

    tokenizer: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    output_ids: Sequence[int]
    answer: Message
    held_bytes: int
    held_digest: bytes
    transcript: Transcript | None
    cuts: tuple[int, ...]

    def is_begun_by(self, prompt: TokenizedPrompt) -> bool:
        """Whether a prompt begins with what the engine held as it is, as most answers' text does
        when it is encoded."""
        return _held_digest(prompt.packed[: self.held_bytes]) == self.held_digest

    def follow(self, tokenizer: PromptTokenizer, messages: Sequence[Message]) -> Transcript | None:
        """The transcript whose next prompt has these messages; threads may call it.

        None where the chat template refuses them, or writes them anew from the beginning.
        """
        before = self.transcript
        try:
            if before is None:
                before = Transcript.start(tokenizer, self.messages, self.tools, cuts=self.cuts)
            return before.answer(self.output_ids, self.answer).follow(messages)
        except (ChatTemplateError, TranscriptRewriteError):
            return None


@dataclass(slots=True)
class _Entry:
    value: Any
    texts: tuple[str, ...]
    weight: int


@dataclass(slots=True)
class _Shared:
    """Long texts by themselves, with how many entries hold each."""

    held: dict[str, list[Any]] = field(default_factory=dict)

    def take(self, text: str) -> tuple[str, int]:
        """The one object of a text, and the characters that it adds."""
        known = self.held.get(text)
        if known is None:
            self.held[text] = [text, 1]
            return text, len(text)
        known[1] += 1
        return known[0], 0

    def leave(self, text: str) -> int:
        """One entry less holds it; the characters that are free now."""
        known = self.held[text]
        known[1] -= 1
        if known[1]:
            return 0
        del self.held[text]
        return len(text)


class Conversations:
    """Turns and answers, the least recently used forgotten first.

    `max_bytes` is of all that is kept, about: texts, token ids and the objects around them.
    """

    def __init__(self, *, max_bytes: int = 128 * 2**20) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._shared = _Shared()

    @property
    def held_bytes(self) -> int:
        """What is kept, about."""
        return self._bytes

    def turn(self, key: bytes) -> Turn | None:
        """What a turn was shown; None where it is not known any more."""
        found = self._find(b"turn" + key)
        return found if isinstance(found, Turn) else None

    def keep_turn(self, key: bytes, turn: Turn) -> None:
        """Remember a turn."""
        weight = len(turn.content) + sum(len(e.text) for e in turn.excerpts)
        self._keep(b"turn" + key, turn, (), weight)

    def said(self, salt: str, prompt: Prompt, tokenizer: PromptTokenizer) -> Answered | None:
        """What the model answered last in the conversation that a prompt goes on with.

        None where no answer in it is remembered, or the engine serves another model now.
        """
        messages = prompt.messages
        last = _last_answer(messages)
        if last is None:
            return None
        known = self._find(_answer_key(salt, prompt.tools, messages[: last + 1]))
        if not isinstance(known, Answered) or known.tokenizer != tokenizer.identity:
            return None
        return known

    def answered(
        self,
        salt: str,
        sent: TokenizedPrompt,
        tokenizer: PromptTokenizer,
        *,
        output_ids: Sequence[int],
        answer: Message,
        transcript: Transcript | None,
    ) -> None:
        """Remember what the model said to a prompt; `transcript` is the one of that prompt."""
        prompt, held_ids = sent.prompt, sent.packed + array("I", output_ids).tobytes()
        cuts = sent.layout.cuts if sent.layout and transcript is None else ()
        key = _answer_key(salt, prompt.tools, (*prompt.messages, answer))
        held = len(answer.content) + _TOKEN_BYTES * (len(output_ids) + len(cuts))
        if transcript is not None:
            characters = sum(len(message.content) for message in transcript.messages)
            held += _TOKEN_BYTES * len(transcript.token_ids) + characters
        texts: list[str] = []
        messages = []
        for message in prompt.messages:
            if len(message.content) >= _LONG_CHARACTERS:
                texts.append(message.content)
            else:
                held += len(message.content)
            messages.append(message)
        self._keep(
            key,
            Answered(
                tokenizer=tokenizer.identity,
                messages=tuple(messages),
                tools=prompt.tools,
                output_ids=tuple(output_ids),
                answer=answer,
                held_bytes=len(held_ids),
                held_digest=_held_digest(held_ids),
                transcript=transcript,
                cuts=tuple(cuts),
            ),
            tuple(texts),
            held,
        )

    def _find(self, key: bytes) -> object:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry.value

    def _keep(self, key: bytes, value: Any, texts: tuple[str, ...], weight: int) -> None:
        self._drop(key)
        shared: dict[str, str] = {}
        for text in texts:
            one, added = self._shared.take(text)
            shared[text] = one
            self._bytes += added
        if shared:
            value.messages = _with_texts(value.messages, shared)
        self._entries[key] = _Entry(value, texts, weight + _ENTRY_BYTES)
        self._bytes += weight + _ENTRY_BYTES
        while self._bytes > self._max_bytes and self._entries:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._bytes -= entry.weight + sum(self._shared.leave(text) for text in entry.texts)


def conversation_keys(about: Iterable[str], messages: Iterable[Message]) -> list[bytes]:
    """For each message, a digest of `about` and of all messages up to it."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for text in about:
        _add(digest, text)
    keys: list[bytes] = []
    for message in messages:
        # Clients often leave an answer's reasoning out when they send it back.
        _add(digest, (replace(message, reasoning=None) if message.reasoning else message).spelled)
        keys.append(digest.digest())
    return keys


def _held_digest(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=_DIGEST_BYTES).digest()


def _add(digest: blake2b, text: str) -> None:
    data = text.encode()
    digest.update(len(data).to_bytes(8, "big"))
    digest.update(data)


def _answer_key(salt: str, tools: Sequence[Tool], messages: Sequence[Message]) -> bytes:
    return b"said" + conversation_keys([salt, *(tool.json for tool in tools)], messages)[-1]


def _last_answer(messages: Sequence[Message]) -> int | None:
    for index in range(len(messages) - 2, -1, -1):
        if messages[index].role == "assistant":
            return index
    return None


def _with_texts(messages: tuple[Message, ...], shared: dict[str, str]) -> tuple[Message, ...]:
    return tuple(
        replace(m, content=shared[m.content]) if m.content in shared else m for m in messages
    )
