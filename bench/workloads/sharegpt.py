"""Conversations of a file in ShareGPT's form: what people asked, with the answers that come. Pure.

The file's own answers are left out, but for their lengths, unless they are asked for: what is
measured is a conversation, whose next turn begins with what the engine itself has said.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.errors import WorkloadError
from bench.workloads.chance import Chance
from bench.workloads.file import JSONObject, WorkloadRequest, answer_of, asked
from bench.workloads.vocabulary import Vocabulary

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "system": "system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """Which of a file's conversations, and how much of each.

    Attributes:
        num_conversations: so many, chosen by chance; None: all, in the file's order.
        max_turns: no more of one conversation.
        max_output: no longer answers.
        recorded: later turns hold the file's answers, not the engine's.
    """

    num_conversations: int | None = None
    max_turns: int | None = None
    max_output: int = 1024
    recorded: bool = False


def sharegpt(
    rows: Sequence[Any], spec: Conversations, vocabulary: Vocabulary, seed: int
) -> Iterator[WorkloadRequest]:
    """A session for each conversation.

    Raises:
        WorkloadError: a row isn't a conversation.
    """
    chosen = list(range(len(rows)))
    if spec.num_conversations is not None:
        chosen = Chance(seed, "conversations").sample(chosen, spec.num_conversations)
    for number in chosen:
        yield from _conversation(number, _messages(number, rows[number]), spec, vocabulary)


def _conversation(
    number: int, said: Sequence[JSONObject], spec: Conversations, vocabulary: Vocabulary
) -> Iterator[WorkloadRequest]:
    messages: list[JSONObject] = []
    turn = 0
    for message, following in zip(said, [*said[1:], None], strict=True):
        if message["role"] != "user":
            if message["role"] == "system":
                messages.append(message)
            continue
        if spec.max_turns is not None and turn >= spec.max_turns:
            return
        messages.append(message)
        if following is None or following["role"] != "assistant":
            continue
        request_id = f"chat-{number}-{turn}"
        length = vocabulary.count(following["content"])
        yield asked(
            {"messages": messages},
            id=request_id,
            session=f"chat-{number}",
            turn=turn,
            max_tokens=min(max(1, length), spec.max_output),
        )
        messages.append(following if spec.recorded else answer_of(request_id))
        turn += 1


def _messages(number: int, row: Any) -> list[JSONObject]:
    said = row.get("conversations", row.get("conversation")) if isinstance(row, Mapping) else None
    if not isinstance(said, list):
        raise WorkloadError(f"conversation {number}", "has no list of `conversations`")
    return [_message(number, part) for part in said]


def _message(number: int, part: Any) -> JSONObject:
    match part:
        case {"from": str(speaker), "value": str(text)}:
            pass
        case {"role": str(speaker), "content": str(text)}:
            pass
        case _:
            raise WorkloadError(f"conversation {number}", "has a part without `from` and `value`")
    role = _ROLES.get(speaker)
    if role is None:
        raise WorkloadError(f"conversation {number}", f"has a part of an unknown {speaker!r}")
    return {"role": role, "content": text}
