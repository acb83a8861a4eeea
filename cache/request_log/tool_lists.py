"""What sets two tool lists apart, and the list that should have been sent."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from cache.request_log.table import TextStore
from prompts import Tool


def canonical_tool(text: str) -> str:
    """One spelling of a tool: keys and lists of required parameters sorted."""
    return json.dumps(
        _ordered(json.loads(text)), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )


def _ordered(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: sorted(item, key=str)
                if key == "required" and isinstance(item, list)
                else _ordered(item)
                for key, item in value.items()
            }
        case list():
            return [_ordered(item) for item in value]
        case _:
            return value


def compare_tools(one: Sequence[Tool], other: Sequence[Tool]) -> tuple[str, ...]:
    """The rule codes of all differences between two lists."""
    names, others = [tool.name for tool in one], [tool.name for tool in other]
    if Counter(names) != Counter(others):
        return ("FW403",)
    codes = ["FW401"] if names != others else []
    texts = {tool.json for tool in one} ^ {tool.json for tool in other}
    if not texts:
        return tuple(codes)
    canonical = {canonical_tool(tool.json) for tool in one}
    same = canonical == {canonical_tool(tool.json) for tool in other}
    return (*codes, "FW402" if same else "FW405")


def changed_tool(one: Sequence[Tool], other: Sequence[Tool]) -> str:
    """The name of the first tool by which the lists differ."""
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            return mine.name
    longer = one if len(one) > len(other) else other
    return longer[min(len(one), len(other))].name if len(one) != len(other) else ""


class ToolRepair:
    """Tool lists as they should have been sent; `codes` are the rules that they break."""

    def __init__(self, store: TextStore, lists: Iterable[int], codes: frozenset[str]) -> None:
        self._store = store
        self._codes = codes
        self._repaired: dict[int, int] = {}
        self._settled = self._settle(lists) if codes & {"FW403", "FW405"} else {}

    def repaired(self, number: int) -> int:
        """The repaired form of a list, by its number."""
        if not self._codes:
            return number
        if number not in self._repaired:
            self._repaired[number] = self._store.add_tools(self._list(number))
        return self._repaired[number]

    def _settle(self, lists: Iterable[int]) -> dict[str, Tool]:
        """For each name the one tool to send, in the order to send them in."""
        settled: dict[str, Tool] = {}
        for number in lists:
            for tool in self._store.tools(number):
                settled.setdefault(tool.name, _canonical(tool))
        return dict(sorted(settled.items()))

    def _list(self, number: int) -> tuple[Tool, ...]:
        if "FW403" in self._codes:
            return tuple(self._settled.values())
        tools = self._store.tools(number)
        if "FW405" in self._codes:
            tools = tuple(self._settled[tool.name] for tool in tools)
        canonical = [_canonical(tool) for tool in tools]
        return tuple(sorted(canonical, key=_by_name) if "FW401" in self._codes else canonical)


def _canonical(tool: Tool) -> Tool:
    return Tool(name=tool.name, json=canonical_tool(tool.json))


def _by_name(tool: Tool) -> str:
    return tool.name
