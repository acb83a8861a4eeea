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
from struct import Struct
from typing import Any

import orjson

from app.schemas import Mode
from prompts import (
    Message,
    Prompt,
    PromptStem,
    PromptTokenizer,
    TokenizedPrompt,
    Tool,
    Transcript,
)
from prompts.errors import ChatTemplateError, TranscriptRewriteError
from retrieval import Excerpt

_DIGEST_BYTES = 16
# The objects around a text and its ids, and the texts around those of a turn.
_ENTRY_BYTES = 800
# A token id in a tuple, and the object for what is written about it.
_TOKEN_BYTES = 8
_ID_BYTES = 4
_OWN_BYTES = 120
# Noted with a stem: the key of the last answer in it, what the next one's goes on with, and the
# answers in it that the model spelled otherwise than their text is encoded.
_SAID, _BEGUN, _OWN = "answer's key", "begun key", "own ids"
# With a stem, too: its messages but the last, with the texts that are kept once.
_ONCE = "messages with texts that are kept once"
# Texts from here on are kept once, however many conversations begin with them.
_LONG_CHARACTERS = 512


# How many bytes a text takes, before it in a digest.
_size = Struct(">Q").pack

OwnIds = tuple[tuple[int, tuple[int, ...]], ...]


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
        transcript: of the prompt; None where that can be made anew.
        own: earlier answers that are in the prompt as the model spelled them: numbers of the
            messages, and ids.
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
    own: "OwnIds"
    cuts: tuple[int, ...]

    def is_begun_by(self, prompt: TokenizedPrompt) -> bool:
        """Whether a prompt begins with what the engine held as it is, as most answers' text does
        when it is encoded."""
        return _held_digest(prompt.packed[: self.held_bytes]) == self.held_digest

    def follow(self, tokenizer: PromptTokenizer, messages: Sequence[Message]) -> Transcript | None:
        """The transcript whose next prompt has these messages; threads may call it.

        None where the chat template refuses them, or writes them anew from the beginning.
        """
        try:
            before = self.transcript or self._transcript(tokenizer)
            return before.answer(self.output_ids, self.answer).follow(messages)
        except (ChatTemplateError, TranscriptRewriteError):
            return None

    def _transcript(self, tokenizer: PromptTokenizer) -> Transcript:
        """Of the prompt. Raises ChatTemplateError."""
        stops = [*(number for number, _ in self.own), len(self.messages)]
        made = Transcript.start(tokenizer, self.messages[: stops[0]], self.tools, cuts=self.cuts)
        for (number, ids), stop in zip(self.own, stops[1:], strict=True):
            made = made.answer(ids, self.messages[number])
            made = made.append(*self.messages[number + 1 : stop])
        return made


@dataclass(slots=True, kw_only=True)
class Resumed:
    """What is known of an answer that a conversation goes on after.

    Attributes:
        answered: None where it isn't remembered.
    """

    answered: Answered | None
    key: bytes
    begun: blake2b
    own: OwnIds
    message: int

    def note(self, stem: PromptStem, *, holds_own: bool) -> None:
        """Tell the stem of that conversation, whether or not the answer's own ids are in it."""
        stem.notes.update({_SAID: self.key, _BEGUN: self.begun, _OWN: self.own})
        if holds_own and self.answered is not None:
            ids = tuple(self.answered.output_ids)
            stem.notes[_OWN] = (*self.own, (self.message, ids))


def note_own_ids(stem: PromptStem, transcript: Transcript) -> None:
    """Tell a stem which answers' own ids are in it."""
    stem.notes[_OWN] = transcript.answers


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

    def __init__(self, *, max_bytes: int = 64 * 2**20) -> None:
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

    def said(
        self,
        salt: str,
        prompt: Prompt,
        tokenizer: PromptTokenizer,
        stem: PromptStem | None = None,
    ) -> Answered | None:
        """What the model answered last in the conversation that a prompt goes on with.

        None where no answer in it is remembered, or the engine serves another model now.
        """
        if stem is not None and stem.notes.get(_SAID, b"") is None:
            return None
        key = _said_key(salt, prompt, stem)
        known = self._find(key) if key is not None else None
        if not isinstance(known, Answered) or known.tokenizer != tokenizer.identity:
            return None
        return known

    def resumed(self, salt: str, stem: PromptStem, asked: Message, answer: Message) -> Resumed:
        """The answer to a message that was asked with a stem."""
        begun = _begun_of(salt, stem).copy()
        _add(begun, _spelled(asked))
        _add(begun, _spelled(answer))
        key = b"said" + begun.digest()
        known = self._find(key)
        if not isinstance(known, Answered) or known.tokenizer != stem.tokenizer.identity:
            known = None
        own: OwnIds = stem.notes.get(_OWN, ())
        number = len(stem.prompt.messages)
        return Resumed(answered=known, key=key, begun=begun, own=own, message=number)

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
        prompt, held_ids, ids = sent.prompt, sent.hashed(), array("I", output_ids)
        held_ids.update(ids.tobytes())
        cuts = tuple(sent.cuts) if transcript is None else ()
        own: OwnIds = ()
        if sent.stem is not None and transcript is None:
            own = sent.stem.notes.get(_OWN, ())
        key = _answered_key(salt, prompt, answer, sent.stem)
        held = len(answer.content) + _ID_BYTES * len(ids) + _TOKEN_BYTES * len(cuts)
        if own:
            held += sum([_OWN_BYTES + _TOKEN_BYTES * len(ids) for _, ids in own])
        if transcript is not None:
            characters = sum(len(message.content) for message in transcript.messages)
            held += _TOKEN_BYTES * len(transcript.token_ids) + characters
        messages, notes = prompt.messages, None if sent.stem is None else sent.stem.notes
        if notes is not None:
            messages = (*notes.get(_ONCE, messages[:-1]), messages[-1])
        texts: list[str] = []
        for message in messages:
            if len(message.content) >= _LONG_CHARACTERS:
                texts.append(message.content)
            else:
                held += len(message.content)
        answered = Answered(
            tokenizer=tokenizer.identity,
            messages=messages,
            tools=prompt.tools,
            output_ids=ids,
            answer=answer,
            held_bytes=len(sent.packed) + _ID_BYTES * len(ids),
            held_digest=held_ids.digest(),
            transcript=transcript,
            own=own,
            cuts=cuts,
        )
        self._keep(key, answered, tuple(texts), held)
        if notes is not None and answered.messages is not messages:
            notes[_ONCE] = answered.messages[:-1]

    def _find(self, key: bytes) -> object:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry.value

    def _keep(self, key: bytes, value: Any, texts: tuple[str, ...], weight: int) -> None:
        if key in self._entries:
            self._drop(key)
        shared: dict[str, str] = {}
        for text in texts:
            one, added = self._shared.take(text)
            if one is not text:
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
        _add(digest, text.encode())
    keys: list[bytes] = []
    for message in messages:
        # Clients often leave an answer's reasoning out when they send it back.
        _add(digest, _spelled(message))
        keys.append(digest.digest())
    return keys


def _spelled(message: Message) -> bytes:
    """All of a message but its reasoning: equal bytes, equal messages."""
    calls: tuple[tuple[str, ...], ...] = ()
    if message.tool_calls:
        calls = tuple([(call.id, call.name, call.arguments) for call in message.tool_calls])
    try:
        return orjson.dumps(
            (message.role, message.content, calls, message.tool_call_id, message.name)
        )
    except orjson.JSONEncodeError:  # half a surrogate pair
        return replace(message, reasoning=None).spelled.encode()


def _held_digest(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=_DIGEST_BYTES).digest()


def _add(digest: blake2b, data: bytes) -> None:
    digest.update(_size(len(data)) + data)


def _said_key(salt: str, prompt: Prompt, stem: PromptStem | None) -> bytes | None:
    """The key of the last answer in a prompt's messages; None where there is none."""
    if stem is not None and _SAID in stem.notes:
        known: bytes | None = stem.notes[_SAID]
        return known
    last = _last_answer(prompt.messages)
    key = None
    if last is not None:
        key = b"said" + _begun(salt, prompt.tools, prompt.messages[: last + 1]).digest()
    if stem is not None:
        stem.notes[_SAID] = key
    return key


def _answered_key(salt: str, prompt: Prompt, answer: Message, stem: PromptStem | None) -> bytes:
    """The key of an answer to a prompt."""
    *earlier, last = prompt.messages
    if stem is not None:
        digest = _begun_of(salt, stem).copy()
    else:
        digest = _begun(salt, prompt.tools, earlier)
    said, answered = _spelled(last), _spelled(answer)
    digest.update(b"%b%b%b%b" % (_size(len(said)), said, _size(len(answered)), answered))
    return b"said" + digest.digest()


def _begun_of(salt: str, stem: PromptStem) -> blake2b:
    """Of all messages of a stem but the last; to be copied."""
    begun: blake2b | None = stem.notes.get(_BEGUN)
    if begun is None:
        begun = _begun(salt, stem.prompt.tools, stem.prompt.messages[:-1])
        stem.notes[_BEGUN] = begun
    return begun


def _begun(salt: str, tools: Sequence[Tool], messages: Iterable[Message]) -> blake2b:
    """As `conversation_keys`, to be gone on with."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    _add(digest, salt.encode())
    for tool in tools:
        _add(digest, tool.json.encode())
    for message in messages:
        _add(digest, _spelled(message))
    return digest


def _last_answer(messages: Sequence[Message]) -> int | None:
    for index in range(len(messages) - 2, -1, -1):
        if messages[index].role == "assistant":
            return index
    return None


def _with_texts(messages: tuple[Message, ...], shared: dict[str, str]) -> tuple[Message, ...]:
    return tuple(
        replace(m, content=shared[m.content]) if m.content in shared else m for m in messages
    )
