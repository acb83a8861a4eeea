"""What a stored conversation's prompts show of tools, kept with its items. Pure.

Where the list of tools began or changed, the last item that was asked then holds the history of the
tools up to there. Nobody is shown it, and no client can bring one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.stored.records import Said, SaidItem
from app.tool_lists import Listed
from prompts.tool_changes import ToolHistory

FIELD = "foreword_tools"


def marked(asked: Sequence[SaidItem], listed: Listed | None, said: Said) -> list[SaidItem]:
    """The items of a turn, the last of them with the history where that is new."""
    items = list(asked)
    if listed is None or listed.history is None or not items:
        return items
    if listed.is_new or listed.news is not None:
        mark = {**listed.history.as_json(), "through": _through(said)}
        items[-1] = replace(items[-1], item={**items[-1].item, FIELD: mark})
    return items


def history_of(said: Said) -> ToolHistory | None:
    """The history as the last turn that changed it left it; None: unknown.

    One from before a compaction speaks of messages that aren't shown any more.
    """
    for each in reversed(said.items):
        mark = each.item.get(FIELD)
        if mark is not None:
            return ToolHistory.of_json(mark) if mark["through"] == _through(said) else None
    answered = any(each.output_ids is not None for each in said.items)
    called = any(each.item.get("type") == "function_call" for each in said.items)
    return ToolHistory.begin(()) if answered and not called and said.summary is None else None


def unmarked(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as anybody may see it."""
    return {name: value for name, value in item.items() if name != FIELD}


def _through(said: Said) -> int | None:
    return said.summary.through if said.summary is not None else None
