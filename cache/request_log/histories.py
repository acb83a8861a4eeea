"""What a later turn did to the messages of the turn that it continues."""

import json
from dataclasses import dataclass

from cache.request_log.canonical_texts import SPELLINGS, spell_alike
from cache.request_log.conversations import head_messages, turns
from cache.request_log.loose import LooseTexts, loose_text, without_reasoning
from cache.request_log.table import RequestTable
from prompts import Message

_SUMMARY_WORDS = ("summar", "so far", "earlier conversation", "previous conversation", "recap")
_LEAST_COMMON = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The first message of the earlier turn that the later one no longer has as it was.

    `codes` are the rules; empty when the history was kept. `fresh` is where the later turn's own
    messages start; `answer` the earlier turn's answer as the later one has it.
    """

    codes: tuple[str, ...]
    fresh: int
    answer: int | None
    one: str = ""
    other: str = ""


def compare_turns(
    table: RequestTable, loose: LooseTexts, earlier: int, later: int
) -> Rewrite | None:
    """How a request's history differs from what it continues; None when nothing lines up."""
    before, after = turns(table, earlier), turns(table, later)
    parted = next(
        (i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]),
        min(len(before), len(after)),
    )
    if parted == len(before):
        return _kept(table, earlier, before, after)
    roles = table.store.roles
    if all(roles[message] != "assistant" for message in before[parted:]) and (
        parted < len(after) and roles[after[parted]] == "assistant"
    ):
        return _dropped(table, before, after, parted)
    fresh = _fresh(table, loose, before, after)
    if fresh is None:
        return None
    answered = fresh < len(after) and table.store.roles[after[fresh]] == "assistant"
    codes = _codes(table, loose, before, after, parted)
    if _summarised(table, earlier, later) and "FW602" in codes:
        codes = ("FW603",)
    return Rewrite(
        codes=codes,
        fresh=fresh + answered,
        answer=after[fresh] if answered else None,
        one=full_text(table.store.message(before[parted])),
        other=full_text(table.store.message(after[parted])) if parted < len(after) else "",
    )


def _kept(
    table: RequestTable, earlier: int, before: tuple[int, ...], after: tuple[int, ...]
) -> Rewrite:
    """The messages are as they were; perhaps the answer is not."""
    store = table.store
    at = len(before)
    if at >= len(after) or store.roles[after[at]] != "assistant":
        return Rewrite(codes=(), fresh=at, answer=None)
    output = table.output(earlier)
    kept = Rewrite(codes=(), fresh=at + 1, answer=after[at] if output is None else output)
    if output is None or output == after[at]:
        return kept
    one, other = store.message(output), store.message(after[at])
    codes = _answer_codes(one, other)
    if not codes:
        return kept
    return Rewrite(
        codes=codes, fresh=at + 1, answer=output, one=full_text(one), other=full_text(other)
    )


def _dropped(
    table: RequestTable, before: tuple[int, ...], after: tuple[int, ...], parted: int
) -> Rewrite:
    """The last messages of the earlier turn are gone from the history, its answer is there."""
    return Rewrite(
        codes=("FW605",),
        fresh=parted + 1,
        answer=after[parted],
        one=full_text(table.store.message(before[parted])),
        other=full_text(table.store.message(after[parted])),
    )


def _answer_codes(one: Message, other: Message) -> tuple[str, ...]:
    """Rules for an answer that came back changed; none when it isn't the same answer at all."""
    codes = _respelled(one, other)
    if codes != ("FW601",):
        return codes
    return codes if _alike(one.content, other.content) else ()


def _alike(one: str, other: str) -> bool:
    """Whether one text was made from the other."""
    mine, theirs = loose_text(one), loose_text(other)
    shorter, longer = sorted((mine, theirs), key=len)
    if len(shorter) < _LEAST_COMMON:
        return False
    return shorter in longer or mine[:_LEAST_COMMON] == theirs[:_LEAST_COMMON]


def _respelled(one: Message, other: Message) -> tuple[str, ...]:
    """Rules for one message spelled in two ways."""
    if (one.content, one.tool_calls, one.role) == (other.content, other.tool_calls, other.role):
        return ("FW604",) if one.reasoning and not other.reasoning else ()
    if without_reasoning(one.content).strip() == without_reasoning(other.content).strip():
        if one.content != other.content:
            return ("FW604",)
        calls = [(call.name, _json_value(call.arguments)) for call in one.tool_calls]
        others = [(call.name, _json_value(call.arguments)) for call in other.tool_calls]
        return ("FW404",) if calls == others else ("FW601",)
    if one.role == "tool" and _json_value(one.content) == _json_value(other.content):
        return ("FW404",)
    spelled = spell_alike(one.content, other.content, SPELLINGS)
    if spelled.one == spelled.other:
        return spelled.codes
    if _context_dropped(one, other):
        return ("FW605",)
    return ("FW601",)


def _json_value(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _context_dropped(one: Message, other: Message) -> bool:
    """Whether a message only lost, gained or changed what was put around it, such as the time."""
    mine, theirs = loose_text(one.content), loose_text(other.content)
    if mine == theirs:
        return True
    shorter, longer = sorted((mine, theirs), key=len)
    around = longer.startswith(shorter) or longer.endswith(shorter)
    return one.role == "user" and bool(shorter) and around


def _fresh(
    table: RequestTable, loose: LooseTexts, before: tuple[int, ...], after: tuple[int, ...]
) -> int | None:
    """Where the later turn's own messages start: behind its last message that lines up."""
    keys = [loose.opening(message) for message in before]
    for at in range(len(after) - 2, -1, -1):
        key = loose.opening(after[at])
        if key in keys:
            return _behind(table, before, after, at, keys[::-1].index(key))
    roles = table.store.roles
    if roles[before[-1]] == roles[after[0]]:
        return _behind(table, before, after, 0, 0)
    return None


def _behind(
    table: RequestTable, before: tuple[int, ...], after: tuple[int, ...], at: int, left: int
) -> int:
    """Behind `at` and up to `left` messages that stand for the rest of the earlier turn."""
    roles = table.store.roles
    rest = before[len(before) - left :] if left else ()
    follow = after[at + 1 : at + 1 + left]
    same = [roles[message] for message in rest] == [roles[message] for message in follow]
    return at + 1 + (left if same else 0)


def _codes(
    table: RequestTable,
    loose: LooseTexts,
    before: tuple[int, ...],
    after: tuple[int, ...],
    parted: int,
) -> tuple[str, ...]:
    store = table.store
    keys = [loose.opening(message) for message in before]
    key = loose.opening(after[parted])
    if key != keys[parted] and key in keys[parted + 1 :]:
        return ("FW602",)
    follower = after[parted + 1 : parted + 2]
    if follower and loose.opening(follower[0]) in keys[parted + 2 :]:
        return ("FW603",) if is_summary(store.text(after[parted])) else ("FW602",)
    if is_summary(store.text(after[parted])) and not is_summary(store.text(before[parted])):
        return ("FW603",)
    return _respelled(store.message(before[parted]), store.message(after[parted]))


def is_summary(text: str) -> bool:
    """Whether a text says that it sums up a conversation."""
    opening = text[:400].casefold()
    return any(word in opening for word in _SUMMARY_WORDS)


def _summarised(table: RequestTable, earlier: int, later: int) -> bool:
    """Whether a summary appeared in the system message as turns went."""
    before, after = head_messages(table, earlier), head_messages(table, later)
    return any(
        message not in before and _SUMMARY_WORDS[0] in table.store.text(message).casefold()
        for message in after
    )


def full_text(message: Message) -> str:
    """A message with its reasoning and calls, for showing."""
    calls = "".join(f" {call.name}({call.arguments})" for call in message.tool_calls)
    reasoning = f"<think>{message.reasoning}</think>" if message.reasoning else ""
    return f"{reasoning}{message.content}{calls}"
