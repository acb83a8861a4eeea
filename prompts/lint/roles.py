"""Where a plain prompt file says whose turn begins: chat marks, headings, `User:` lines."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_WORDS = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "customer": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "tool": "tool",
    "ipython": "tool",
}
_ROLE = "(?P<{}>" + "|".join(_WORDS) + ")"
_MARKS = re.compile(
    r"<\|im_start\|>\s*" + _ROLE.format("a") + r"|<\|start_header_id\|>\s*" + _ROLE.format("b")
    + r"|<start_of_turn>\s*" + _ROLE.format("c") + r"|<\|" + _ROLE.format("d") + r"\|>"
    + r"|<\|start_of_role\|>\s*" + _ROLE.format("e") + r"|(?P<inst>\[INST\])"
    + r"|^[ \t]*(?:\#{1,4}[ \t]*)?(?:\*\*|\[|<)?(?i:" + _ROLE.format("f") + r")"
    + r"(?:[ ](?i:prompt|message|turn))?(?:\*\*|\]|>)?(?:[ \t]*:(?:\*\*)?|[ \t]*$|(?<=>))",
    re.MULTILINE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn begins at `offset`; `spelled` by a chat template's own mark."""

    offset: int
    role: str
    spelled: bool


def role_marks(text: str, start: int) -> Iterator[Turn]:
    """The turns that begin in a text that stands at `start`."""
    for found in _MARKS.finditer(text):
        word = next((value for value in found.groupdict().values() if value), "")
        role = _WORDS.get(word.lower(), "user")
        yield Turn(start + found.start(), role, spelled=found["f"] is None)


def last_user_turn(turns: Iterable[Turn]) -> int | None:
    """Where the last user turn begins, if nothing but the answer's opening follows it."""
    ordered = sorted(turns, key=lambda turn: turn.offset)
    while ordered and ordered[-1].role == "assistant":
        ordered.pop()
    return ordered[-1].offset if ordered and ordered[-1].role == "user" else None
