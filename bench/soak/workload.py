"""What clients ask during a soak: chats that grow, questions about collections, and mistakes.

The order of kinds and texts follows from the seed; a chat's history holds the answers that came.
Pure.
"""

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bench.micro.words import sentences

_CHATS = 300
_CHAT_TURNS = 10
_INSTRUCTIONS = 12
_QUESTIONS = 400
_ABORTED = 0.03
_STREAMED = 0.5


class Kind(StrEnum):
    """What a request is like."""

    CHAT = "chat"
    """The next turn of one of several hundred conversations."""
    RAG = "rag"
    """A question about a collection; passages are retrieved."""
    CAG = "cag"
    """A question about a collection that is in the prompt as a whole."""
    SINGLE = "single"
    """One message under one of a dozen long instructions."""
    STAMPED = "stamped"
    """The same with the time of day before the instructions: what follows can't be re-used."""
    MISTAKE = "mistake"
    """A template that there isn't: the client's own fault."""


_SHARES = {
    Kind.CHAT: 40,
    Kind.RAG: 20,
    Kind.CAG: 15,
    Kind.SINGLE: 18,
    Kind.STAMPED: 6,
    Kind.MISTAKE: 1,
}


@dataclass(slots=True)
class Chat:
    """A conversation so far."""

    instructions: str
    messages: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request; `give_up_after` so many parts of its stream its client goes away."""

    kind: Kind
    body: dict[str, Any]
    give_up_after: int | None = None
    chat: Chat | None = None


class Workload:
    """An endless supply of requests.

    Attributes:
        collections: names that may be asked about; may be changed while it runs.
    """

    def __init__(self, seed: int, *, collections: list[str]) -> None:
        self._source = random.Random(seed)
        self.collections = collections
        self._instructions = [sentences(self._source, 1_200) for _ in range(_INSTRUCTIONS)]
        self._questions = [sentences(self._source, 60) for _ in range(_QUESTIONS)]
        self._idle = [Chat(self._pick(self._instructions)) for _ in range(_CHATS)]
        self._kinds = list(_SHARES)
        self._weights = list(_SHARES.values())

    def next(self) -> Ask:
        """The next request."""
        kind = self._source.choices(self._kinds, self._weights)[0]
        if kind is Kind.CHAT and self._idle:
            return self._turn()
        if kind in (Kind.RAG, Kind.CAG):
            about = {"collection": self._pick(self.collections), "mode": kind.value}
            return self._ask(kind, [_user(self._question())], foreword=about)
        if kind is Kind.MISTAKE:
            return self._ask(kind, [_user("?")], foreword={"template": "nowhere"})
        instructions = self._pick(self._instructions)
        if kind is Kind.STAMPED:
            instructions = f"It is {self._source.randrange(86_400)}. {instructions}"
        return self._ask(kind, [_system(instructions), _user(self._question())])

    def answered(self, ask: Ask, answer: str | None) -> None:
        """A conversation goes on where its answer came, and begins anew where it has none."""
        if ask.chat is None:
            return
        chat = ask.chat
        if not answer or len(chat.messages) >= 2 * _CHAT_TURNS - 1:
            chat = Chat(self._pick(self._instructions))
        else:
            chat.messages.append({"role": "assistant", "content": answer})
        self._idle.append(chat)

    def _turn(self) -> Ask:
        chat = self._idle.pop(self._source.randrange(len(self._idle)))
        chat.messages.append(_user(self._question()))
        return self._ask(Kind.CHAT, [_system(chat.instructions), *chat.messages], chat=chat)

    def _ask(
        self,
        kind: Kind,
        messages: list[dict[str, str]],
        *,
        foreword: dict[str, str] | None = None,
        chat: Chat | None = None,
    ) -> Ask:
        stream = self._source.random() < _STREAMED
        gives_up = stream and self._source.random() < _ABORTED / _STREAMED
        body: dict[str, Any] = {"model": "default", "messages": messages, "stream": stream}
        body["max_tokens"] = self._source.randrange(60, 90) if gives_up else self._answer_tokens()
        if foreword:
            body["foreword"] = foreword
        after = self._source.randrange(1, 4) if gives_up else None
        return Ask(kind=kind, body=body, give_up_after=after, chat=chat)

    def _answer_tokens(self) -> int:
        return self._source.randrange(4, 32)

    def _question(self) -> str:
        """One of a few hundred, some far more often than others; half of them with a new end."""
        question = self._questions[int(len(self._questions) * self._source.random() ** 3)]
        if self._source.random() < 0.5:
            question += sentences(self._source, 80)
        return question

    def _pick(self, among: list[str]) -> str:
        return among[int(len(among) * self._source.random() ** 2)]


def collection_files(seed: int, name: str) -> dict[str, str]:
    """The documents of one collection: small enough that all of it fits a prompt."""
    source = random.Random(f"{seed}/{name}")
    return {f"{name}-{n}.txt": sentences(source, 900) for n in range(source.randrange(2, 7))}


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}
