"""Items as conversations keep and show them: OpenAI's shapes, each with an id. Pure."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from app.responses.input_items import messages_of
from app.stored.records import SaidItem
from app.stored.tool_marks import unmarked

_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
    "file_search_call": "fs",
}


def input_items(
    given: str | Sequence[Mapping[str, Any]], *, field: str = "input"
) -> list[SaidItem]:
    """What a client sent, as items with ids of ours.

    Args:
        field: what the client calls them.

    Raises:
        InvalidRequestError: an item isn't one that can be answered; names it.
    """
    if isinstance(given, str):
        given = [{"role": "user", "content": given}] if given else []
    messages_of(given, field=field)
    return [SaidItem(item=_kept(item)) for item in given]


def output_items(
    output: Sequence[Mapping[str, Any]], *, output_ids: bytes | None, tokenizer: str | None
) -> list[SaidItem]:
    """A response's output; the last item has the token ids."""
    items = [SaidItem(item=dict(item)) for item in output]
    if items and output_ids is not None:
        items[-1] = SaidItem(item=items[-1].item, output_ids=output_ids, tokenizer=tokenizer)
    return items


def shown_item(item: Mapping[str, Any], *, results: bool) -> dict[str, Any]:
    """An item as it is listed; what was found is told only where it is asked for."""
    shown = unmarked(item)
    if item.get("type") == "file_search_call" and not results:
        shown["results"] = None
    return shown


def _kept(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = item.get("type") or "message"
    kept = unmarked(item) | {"id": f"{_PREFIXES.get(kind, 'item')}_{os.urandom(16).hex()}"}
    if kind == "message":
        kept["type"] = "message"
        kept["content"] = _parts(item["role"], item["content"])
    if kind == "reasoning":
        kept.setdefault("summary", [])
    kept.setdefault("status", "completed")
    return kept


def _parts(role: str, content: Any) -> list[dict[str, Any]]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [_part(role, dict(part)) for part in parts]


def _part(role: str, part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "refusal":
        return part
    if role != "assistant":
        return part | {"type": "input_text"}
    return {"annotations": [], "logprobs": []} | part | {"type": "output_text"}
