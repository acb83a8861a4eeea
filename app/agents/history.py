"""All that a run's next prompt shows: what was said before it, what it was asked, what it did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.agents.records import StepRecord
from app.responses.input_items import messages_after
from app.stored.records import Resumption, Said, SaidItem
from app.stored.tool_marks import history_of
from app.stored.turn import SUMMARY_OPENS


@dataclass(slots=True, kw_only=True)
class RunHistory:
    """What a run goes on from.

    Attributes:
        before: what was said before it.
        asked: its own input.
        own_salt: names the conversation whose KV is kept apart.
    """

    before: Said
    asked: Sequence[SaidItem]
    own_salt: str | None = None
    steps: list[StepRecord] = field(default_factory=list)

    @property
    def said(self) -> Said:
        """As one."""
        return Said(items=[*self.before.items, *self.asked, *self.own], summary=self.before.summary)

    @property
    def own(self) -> list[SaidItem]:
        """What the run itself said and was shown."""
        return [item for step in self.steps for item in step.said()]

    @property
    def is_new(self) -> bool:
        """Whether the model has answered nothing of it."""
        return not self.before.items and not self.steps

    def messages(self) -> tuple[list[dict[str, Any]], Resumption | None]:
        """The messages of the next prompt, and how the answers among them are spelled."""
        said = self.said
        messages, spelled = messages_after(
            [(each.item, each.output_ids) for each in said.items], ()
        )
        if said.summary is not None:
            text = f"{SUMMARY_OPENS}\n{said.summary.text}"
            messages.insert(0, {"role": "system", "content": text})
        if self.is_new and self.own_salt is None:
            return messages, None
        tokenizers = (each.tokenizer for each in reversed(said.items) if each.tokenizer)
        return messages, Resumption(
            output_ids=tuple(spelled),
            tokenizer=next(tokenizers, None),
            own_salt=self.own_salt,
            tools=history_of(said),
        )

    def handed(self, step: StepRecord, call_id: str, task: str) -> "RunHistory":
        """What a sub-agent goes on from: all of it up to the call, and then its task.

        So its prompt begins with what the engine holds of its parent's.
        """
        until = [item for each in self.steps if each.number < step.number for item in each.said()]
        answer = [item for item in step.said() if item.item["type"] != "function_call_output"]
        before = Said(
            items=[*self.before.items, *self.asked, *until, *answer], summary=self.before.summary
        )
        asked = (
            _item("function_call_output", call_id=call_id, output="It begins now."),
            _item("message", role="user", content=[{"type": "input_text", "text": task}]),
        )
        return RunHistory(before=before, asked=asked, own_salt=self.own_salt)


def _item(kind: str, **fields: Any) -> SaidItem:
    made: Mapping[str, Any] = {"type": kind, "id": f"{kind}_task", "status": "completed"}
    return SaidItem(item={**made, **fields})
