"""A group's requests as they would have been without its causes, for replaying them.

Text is rearranged and spelled in one way, tool lists are settled, histories are kept as they were
sent. Only token counts and shared openings of the result matter.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from cache.request_log.canonical_texts import SPELLINGS
from cache.request_log.causes import FIRST, HEAD, HISTORY, TOOLS, Cause
from cache.request_log.conversations import Link, head_messages, turns
from cache.request_log.groups import Group
from cache.request_log.histories import compare_turns, is_summary
from cache.request_log.loose import LooseTexts
from cache.request_log.rearrange import REARRANGED, Rearrangement
from cache.request_log.table import LogPrompt, RequestTable
from cache.request_log.tool_lists import ToolRepair
from prompts import Message

_SAMPLES = 32


class GroupRepair:
    """Repairs the requests of one group, one after the other in the order of the log."""

    def __init__(
        self,
        table: RequestTable,
        loose: LooseTexts,
        group: Group,
        links: Sequence[Link | None],
        causes: Collection[Cause],
    ) -> None:
        self._table = table
        self._loose = loose
        self._links = links
        self._codes = {
            part: frozenset(cause.code for cause in causes if cause.part == part)
            for part in (HEAD, TOOLS, FIRST, HISTORY)
        }
        spelled = frozenset().union(*self._codes.values())
        self._forms = [form for form in SPELLINGS if form.code in spelled]
        self._rearranged = {
            part: Rearrangement(self._texts(part, group), self._codes[part])
            for part in (HEAD, FIRST)
            if self._codes[part] & REARRANGED
        }
        self._tools = ToolRepair(
            table.store, {table.prompt(r).tools: None for r in group.requests}, self._codes[TOOLS]
        )
        self._keeps_histories = bool(self._codes[HISTORY]) or self._head_changes_by_turn(group)
        self._moved: dict[int, str] = {}
        self._messages: dict[tuple[str, int], tuple[int, str]] = {}
        self._histories: dict[int, tuple[int, ...]] = {}
        self._example_turns: tuple[int, ...] | None = None

    def prompt(self, request: int) -> LogPrompt:
        """The repaired request."""
        parts = [self._message(HEAD, message) for message in self._head(request)]
        own = turns(self._table, request)
        moved = "".join(text for _, text in parts)
        if self._keeps_histories:
            history = self._kept_history(request, own, moved)
        else:
            history = self._own_history(request, own)
            history = self._with_moved(history, moved, at=0) if moved else history
        tools = self._tools.repaired(self._table.prompt(request).tools)
        return LogPrompt(tools, (*(number for number, _ in parts), *history))

    def answer(self, answer: int | None) -> int | None:
        """The repaired form of an answer."""
        return None if answer is None else self._message(HISTORY, answer)[0]

    def _texts(self, part: str, group: Group) -> list[str]:
        """The different texts that the part has in some of the requests."""
        texts: dict[str, None] = {}
        for request in group.requests:
            if part == HEAD:
                messages = head_messages(self._table, request)
            else:
                messages = () if self._links[request] else turns(self._table, request)[:1]
            texts |= dict.fromkeys(self._spelled(self._table.store.text(m)) for m in messages)
            if len(texts) >= _SAMPLES:
                break
        return list(texts)

    def _spelled(self, text: str) -> str:
        for form in self._forms:
            text = form.apply(text)
        return text

    def _head_changes_by_turn(self, group: Group) -> bool:
        """Whether what varies in the head changes from turn to turn of one conversation."""
        return HEAD in self._rearranged and any(
            head_messages(self._table, request) != head_messages(self._table, link.earlier)
            for request in group.requests
            if (link := self._links[request])
        )

    def _head(self, request: int) -> tuple[int, ...]:
        """The system messages, without the summaries that took the place of turns."""
        head = head_messages(self._table, request)
        if "FW603" not in self._codes[HISTORY]:
            return head
        store = self._table.store
        return tuple(message for message in head if not is_summary(store.text(message)))

    def _message(self, part: str, message: int) -> tuple[int, str]:
        """A message repaired, and the text that has to move out of it."""
        key = (part, message)
        if key not in self._messages:
            self._messages[key] = self._repaired(part, message)
        return self._messages[key]

    def _repaired(self, part: str, message: int) -> tuple[int, str]:
        rearranged = self._rearranged.get(part)
        if rearranged is None and not self._forms:
            return message, ""
        whole = self._table.store.message(message)
        text, moved = self._spelled(whole.content), ""
        if rearranged is not None:
            text, moved = rearranged.apply(text)
            if part == FIRST:
                text, moved = text + moved, ""
        return self._table.store.add_message(replace(whole, content=text)), moved

    def _kept_history(self, request: int, own: tuple[int, ...], moved: str) -> tuple[int, ...]:
        """The turns of the request before and the new ones.

        Text of the head is put into the turn that it first belongs to, where it then stays.
        """
        link = self._links[request]
        history = self._continued(request, own)
        before = self._moved.get(link.earlier) if link and history else None
        if history is None:
            history = self._own_history(request, own)
        if moved and moved != before:
            history = self._with_moved(history, moved, at=len(history) - 1)
        self._moved[request] = moved
        self._histories[request] = history
        return history

    def _with_moved(self, history: tuple[int, ...], moved: str, *, at: int) -> tuple[int, ...]:
        store = self._table.store
        if not history:
            return (store.add_message(Message(role="user", content=moved)),)
        whole = store.message(history[at])
        texts = (whole.content, moved) if at else (moved, whole.content)
        changed = store.add_message(replace(whole, content="\n".join(texts)))
        return (*history[:at], changed, *history[at + 1 :])

    def _own_history(self, request: int, own: tuple[int, ...]) -> tuple[int, ...]:
        if "FW107" in self._codes[HISTORY] and self._links[request] is None:
            return self._with_fixed_examples(own)
        return (*self._as_history(own[:1], FIRST), *self._as_history(own[1:]))

    def _as_history(self, messages: Sequence[int], part: str = HISTORY) -> list[int]:
        return [self._message(part, message)[0] for message in messages]

    def _with_fixed_examples(self, own: tuple[int, ...]) -> tuple[int, ...]:
        """The example turns of the group's first request in the place of a request's own."""
        if self._example_turns is None:
            self._example_turns = own[:-1]
        return (*self._example_turns, *own[-1:])

    def _continued(self, request: int, own: tuple[int, ...]) -> tuple[int, ...] | None:
        link = self._links[request]
        before = self._histories.get(link.earlier) if link else None
        if link is None or before is None:
            return None
        rewrite = compare_turns(self._table, self._loose, link.earlier, request)
        if rewrite is None or (rewrite.codes and not self._codes[HISTORY]):
            return None
        answer = rewrite.answer
        if answer is None:
            answer = self._table.output(link.earlier)
        answers = [] if answer is None else [answer]
        return (*before, *self._as_history([*answers, *own[rewrite.fresh :]]))
