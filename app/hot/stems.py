"""Prompts that begin as earlier ones did: all but the last message's text is made once.

A stem is kept under all that it was made of, word for word, and under the salt: nobody's requests
get faster, or slower, by what another tenant asked. It is made when its beginning comes for the
second time, and the least recently used go first.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from app.conversations import Conversations
from app.messages import message_object
from app.replica_view import ReplicaView
from app.schemas import ChatCompletionRequest
from prompts import (
    Message,
    Prompt,
    PromptStem,
    PromptTokenizer,
    Template,
    TokenizedPrompt,
    Tool,
    Turn,
    canonical_text,
    grown,
    stem_of,
)
from prompts.canonical import check_text

_MOST_SEEN = 20_000
_ENTRY_BYTES = 500
_CONVERSATION = "conversation"
_OPENED = "as JSON"
# The end of a key that goes on: user, text, assistant, text, user.
_TURN = 5
# What more takes long enough to encode for other requests to notice.
_LONG_TURN = 16_384


class StemKey(NamedTuple):
    """All that a prompt is made of but its last message's text.

    `given` are the other messages' roles and contents as the client sent them.
    """

    template: str
    tokenizer: str
    salt: str
    tools: tuple[Tool, ...]
    given: tuple[str, ...]


class KnownTurn(NamedTuple):
    """A stem with what was said since, as prompts have it, and what is asked now."""

    key: StemKey
    stem: PromptStem
    asked: str
    answered: str
    asks: str


class _Opened(NamedTuple):
    """The first so many messages or ids as JSON, up to where the next one begins."""

    length: int
    json: bytes


@dataclass(slots=True)
class _Kept:
    """A stem; `grown` out of another, which is of no more use then."""

    key: StemKey
    stem: PromptStem
    weight: int
    grown: bool


class Stems:
    """Stems within `max_bytes`, about. One event loop owns it."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[StemKey, _Kept] = OrderedDict()
        # Digest of a key → how often it came without becoming a stem.
        self._seen: dict[int, int] = {}
        self.held_bytes = 0

    def knows(self, key: StemKey) -> bool:
        """Whether `prompt` may make one of a key, or `turn` find what it goes on with."""
        return key in self._kept or key._replace(given=key.given[: 1 - _TURN]) in self._kept

    def prompt(self, key: StemKey, template: Template, content: str) -> TokenizedPrompt | None:
        """The prompt of a key and a last message; None where nothing is known of it."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        canonical: str | None = content
        if not content.isascii() or "\r" in content:
            canonical = _canonical(template, content)
        return None if canonical is None else kept.stem.prompt_with(canonical)

    def turn(self, key: StemKey, template: Template, content: str) -> KnownTurn | None:
        """What a key goes on with after a stem that is kept: the last answer and what it is to.

        None where there is no such stem.
        """
        if len(key.given) < _TURN or key.given[-_TURN] != "user" or key.given[-3] != "assistant":
            return None
        before = key._replace(given=key.given[: 1 - _TURN])
        earlier = self._kept.get(before)
        if earlier is None:
            return None
        self._kept.move_to_end(before)
        answered = key.given[-2]  # kept as the model said it
        asked, asks = _canonical(template, key.given[-4]), _canonical(template, content)
        if asked is None or asks is None or not _is_text(answered):
            return None
        if len(asked) + len(answered) + len(asks) > _LONG_TURN:
            return None
        return KnownTurn(earlier.key, earlier.stem, asked, answered, asks)

    def gone_on(
        self, key: StemKey, turn: KnownTurn, conversations: Conversations
    ) -> TokenizedPrompt | None:
        """The prompt of a key that goes on after a stem, which is kept; None where only the whole
        can tell."""
        asked = Message(role="user", content=turn.asked)
        answer = Message(role="assistant", content=turn.answered)
        resumed = conversations.resumed(key.salt, turn.stem, asked, answer)
        output_ids = None
        if (known := resumed.answered) is not None:
            if known.answer != answer:
                return None
            output_ids = tuple(known.output_ids)
        found = grown(turn.stem, Turn(turn.asked, turn.answered, turn.asks, output_ids))
        if found is None:
            return None
        resumed.note(found.stem, holds_own=found.holds_own)
        # With the earlier key's own texts: an opening that many share is held once.
        given = (*turn.key.given, *key.given[1 - _TURN :])
        self._keep(key._replace(given=given), found.stem, since=turn.key)
        return found.stem.prompt_with(turn.asks)

    def met(
        self,
        key: StemKey,
        tokenizer: PromptTokenizer,
        made: TokenizedPrompt,
        content: str,
        *,
        at_once: bool = False,
    ) -> PromptStem | None:
        """A prompt was made of a key; its stem, where that is kept from now on.

        Args:
            at_once: whether to keep it the first time.
        """
        digest = hash(key)
        times = self._seen.get(digest, 0)
        if times != 1 - at_once or key in self._kept:
            if not times:
                self._see(digest, 1)
            return None
        stem = stem_of(tokenizer, made)
        if stem is None or not _ends_with(made.prompt, content):
            self._see(digest, 2)  # not asked again
            return None
        self._seen.pop(digest, None)
        self._keep(key, stem)
        return stem

    def forget_salt(self, salt: str) -> None:
        """A salt is never used again."""
        for key in [key for key in self._kept if key.salt == salt]:
            self._drop(key)

    def _see(self, digest: int, times: int) -> None:
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[digest] = times

    def _keep(self, key: StemKey, stem: PromptStem, *, since: StemKey | None = None) -> None:
        """Args: `since` is of the stem that it grew from."""
        weight = _ENTRY_BYTES + stem.held_bytes
        if since is None:
            weight += sum(map(len, key.given)) + sum(len(o.json) for o in _open(stem))
        else:
            weight += sum(map(len, key.given[1 - _TURN :]))
            if self._kept[since].grown:
                self._drop(since)
        self._kept[key] = _Kept(key, stem, weight, since is not None)
        self.held_bytes += weight
        while self.held_bytes > self._max_bytes and self._kept:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: StemKey) -> None:
        self.held_bytes -= self._kept.pop(key).weight


def _canonical(template: Template, text: str) -> str | None:
    """A message's text as prompts have it; None where only rendering can tell."""
    if text.isascii() and "\r" not in text:
        return text
    if not template.variables[_CONVERSATION].normalize:
        return None
    try:
        return canonical_text(text)
    except ValueError:
        return None


def _is_text(text: str) -> bool:
    """Whether it holds no half of a surrogate pair, which the whole prompt would be refused for."""
    try:
        check_text(text)
    except ValueError:
        return False
    return True


def stem_key(
    view: ReplicaView,
    template: Template,
    request: ChatCompletionRequest,
    *,
    salt: str,
    tools: tuple[Tool, ...],
) -> StemKey | None:
    """The key of a request that is nothing but plain messages, the last of them the user's."""
    if view.tokenizer is None or not view.parity.ok or (tools and not view.parity.tools):
        return None
    variables = template.variables
    if _CONVERSATION not in variables or "question" in variables:
        return None
    given: list[str] = []
    for message in request.messages:
        if type(message.content) is not str or message.model_extra:
            return None
        given += (message.role, message.content)
    given.pop()
    if given[-1] != "user":
        return None
    return StemKey(template.reference, view.tokenizer.identity, salt, tools, tuple(given))


def stem_json(prompt: TokenizedPrompt, stem: PromptStem) -> tuple[orjson.Fragment, orjson.Fragment]:
    """The messages as the engine takes them, and the prompt's ids: of a prompt of a stem."""
    opened, ids = stem.lasting.get(_OPENED) or _open(stem)
    messages = prompt.prompt.messages
    rest = b",".join(map(orjson.dumps, map(message_object, messages[opened.length :])))
    return (
        orjson.Fragment(b"%b%b]" % (opened.json, rest)),
        orjson.Fragment(ids.json + orjson.dumps(prompt.ids_from(ids.length))[1:]),
    )


def messages_json(prompt: Prompt, stem: PromptStem | None) -> orjson.Fragment:
    """The messages as the engine takes them."""
    if stem is None:
        return orjson.Fragment(orjson.dumps([message_object(m) for m in prompt.messages]))
    opened, _ = _open(stem)
    rest = orjson.dumps([message_object(m) for m in prompt.messages[opened.length :]])
    return orjson.Fragment(opened.json + rest[1:])


def ids_json(prompt: TokenizedPrompt) -> orjson.Fragment:
    """The prompt's ids as a JSON list."""
    stem = prompt.stem
    if stem is None:
        return orjson.Fragment(orjson.dumps(prompt.token_ids))
    _, opened = _open(stem)
    return orjson.Fragment(opened.json + orjson.dumps(prompt.ids_from(opened.length))[1:])


def _open(stem: PromptStem) -> tuple[_Opened, _Opened]:
    """The messages and ids that all prompts of a stem begin with: all, or those of the stem that it
    grew from."""
    known: tuple[_Opened, _Opened] | None = stem.lasting.get(_OPENED)
    if known is None:
        earlier = [message_object(message) for message in stem.prompt.messages[:-1]]
        messages = orjson.dumps(earlier)[:-1] + (b"," if earlier else b"")
        ids = orjson.dumps(stem.ids)[:-1] + (b"," if stem.tokens else b"")
        known = (_Opened(len(earlier), messages), _Opened(stem.tokens, ids))
        stem.lasting[_OPENED] = known
    return known


def _ends_with(prompt: Prompt, content: str) -> bool:
    """Whether the prompt ends with the message that the request ended with."""
    try:
        return prompt.messages[-1] == Message(role="user", content=canonical_text(content))
    except ValueError:
        return False
