"""Tool lists that change while a conversation goes on.

Chat templates write the tools before everything else, so that another list would have the whole
conversation computed anew. Instead the list that a conversation began with stays at the top, and
each change is a message at the end of what was said. All that a prompt shows of tools follows from
a `ToolHistory`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prompts.records import record
from prompts.render import render
from prompts.segments import Tool
from prompts.template import Template
from prompts.tool_calls import CallShape
from prompts.values import Value


@record
class Announcement:
    """A change of tools as the model was told it.

    Attributes:
        place: the message that it comes before, counted from the first after the instructions.
        inside: whether it stands at the beginning of that message instead.
    """

    place: int
    text: str
    inside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChange:
    """What became of a list of tools."""

    added: tuple[Tool, ...] = ()
    altered: tuple[Tool, ...] = ()
    returned: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()

    @property
    def only_withdraws(self) -> bool:
        """Whether there is nothing in it that the model would have to be shown."""
        return not (self.added or self.altered or self.returned)

    def words(self, template: Template, shape: CallShape | None = None) -> str:
        """The change as a template tells it.

        Args:
            shape: how calls are written, where the model has been shown no tools before.
        """
        values: dict[str, Value] = {
            "added": "\n".join([tool.json for tool in self.added]),
            "altered": "\n".join([tool.json for tool in self.altered]),
            "returned": ", ".join(self.returned),
            "withdrawn": ", ".join(self.withdrawn),
        }
        if shape is not None and self.added:
            values["form"] = f"{shape.begin('NAME')}{{ARGUMENTS}}{shape.after}"
        return render(template, values).messages[-1].content


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolHistory:
    """The tools of a conversation, from its beginning to now; all lists are canonical.

    Attributes:
        base: those at the top of its prompts.
        now: those that the model may call.
        told: each tool that it was told of since, as it was told last.
    """

    base: tuple[Tool, ...]
    now: tuple[Tool, ...]
    told: tuple[Tool, ...] = ()
    announcements: tuple[Announcement, ...] = field(default=())

    @classmethod
    def begin(cls, tools: tuple[Tool, ...]) -> "ToolHistory":
        """Of a conversation whose prompts have these at the top."""
        return cls(base=tools, now=tools)

    @property
    def shown(self) -> dict[str, Tool]:
        """All that the model has read of, by name, as it read it last."""
        return {tool.name: tool for tool in (*self.base, *self.told)}

    @property
    def out_of_reach(self) -> tuple[str, ...]:
        """Names that the model has read of and may not call."""
        callable_now = {tool.name for tool in self.now}
        return tuple(sorted(name for name in self.shown if name not in callable_now))

    def up_to(self, place: int) -> "ToolHistory":
        """Without what was told behind so many messages."""
        kept = tuple(each for each in self.announcements if each.place <= place)
        return replace(self, announcements=kept)

    def change_to(self, tools: tuple[Tool, ...]) -> ToolChange | None:
        """What a new list changes; None: nothing."""
        if tools == self.now:
            return None
        shown, before = self.shown, {tool.name: tool for tool in self.now}
        after = {tool.name for tool in tools}
        fresh = [tool for tool in tools if before.get(tool.name) != tool]
        return ToolChange(
            added=tuple([tool for tool in fresh if tool.name not in shown]),
            altered=tuple([t for t in fresh if t.name in shown and shown[t.name].json != t.json]),
            returned=tuple([tool.name for tool in fresh if shown.get(tool.name) == tool]),
            withdrawn=tuple(sorted(name for name in before if name not in after)),
        )

    def as_json(self) -> dict[str, Any]:
        """To be stored."""
        return {
            "base": [tool.json for tool in self.base],
            "now": [tool.json for tool in self.now],
            "told": [tool.json for tool in self.told],
            "announcements": [[a.place, a.text, a.inside] for a in self.announcements],
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> "ToolHistory":
        """As it was stored."""
        return cls(
            base=tuple(map(_tool, stored["base"])),
            now=tuple(map(_tool, stored["now"])),
            told=tuple(map(_tool, stored["told"])),
            announcements=tuple(
                Announcement(place=place, text=text, inside=inside)
                for place, text, inside in stored["announcements"]
            ),
        )

    def changed(
        self, tools: tuple[Tool, ...], announcement: Announcement | None = None
    ) -> "ToolHistory":
        """With a new list, and what the model was told of it."""
        told, announcements = self.told, self.announcements
        if announcement is not None:
            known = self.shown
            fresh = {tool.name: tool for tool in tools if known.get(tool.name) != tool}
            told = (*[tool for tool in told if tool.name not in fresh], *fresh.values())
            announcements = (*announcements, announcement)
        return ToolHistory(base=self.base, now=tools, told=told, announcements=announcements)


def _tool(text: str) -> Tool:
    return Tool(name=json.loads(text)["function"]["name"], json=text)


def spliced(
    messages: Sequence[tuple[str, str]], announcements: Sequence[Announcement]
) -> list[tuple[str, str] | int]:
    """Where announcements go: numbers of messages that stay as they are, and new ones as role and
    content. One inside a message stands in a new one in its place."""
    made: list[tuple[str, str] | int] = []
    waiting = list(announcements)
    for place, (role, content) in enumerate(messages):
        inside: list[str] = []
        while waiting and waiting[0].place <= place:
            found = waiting.pop(0)
            if found.inside and role == "user":
                inside.append(found.text)
            else:
                made.append(("system", found.text))
        made.append((role, "\n\n".join([*inside, content])) if inside else place)
    return [*made, *[("system", rest.text) for rest in waiting]]
