"""How far two prompts should be the same."""

from dataclasses import replace
from enum import Enum

from foreword_pytest.prompt import FlatPrompt

_SYSTEM_ROLES = ("tools", "system", "developer")


class Until(Enum):
    """The end of what prompts should share."""

    LAST_USER = "the last user turn"
    SYSTEM = "the end of tools and system text"
    END = "the end"


def shared_part(prompt: FlatPrompt, until: Until | str) -> FlatPrompt | None:
    """The prompt up to there; None if a marker isn't in it.

    A text is a marker: everything before its first occurrence is shared.
    """
    match until:
        case Until.END:
            return prompt
        case Until.SYSTEM:
            return replace(prompt, parts=prompt.parts[: _system_end(prompt)])
        case Until.LAST_USER:
            return replace(prompt, parts=prompt.parts[: _last_user(prompt)])
        case _:
            return _before(prompt, until)


def _system_end(prompt: FlatPrompt) -> int:
    for index, part in enumerate(prompt.parts):
        if part.role not in (*_SYSTEM_ROLES, None):
            return index
    return len(prompt.parts)


def _last_user(prompt: FlatPrompt) -> int:
    """Index of the first part of the last user message; without one, everything is shared."""
    users = [part.message for part in prompt.parts if part.role == "user"]
    if not users:
        return len(prompt.parts)
    return next(
        index
        for index, part in enumerate(prompt.parts)
        if part.role == "user" and part.message == users[-1]
    )


def _before(prompt: FlatPrompt, marker: str) -> FlatPrompt | None:
    for index, part in enumerate(prompt.parts):
        before, found, _ = part.text.partition(marker)
        if found:
            return replace(prompt, parts=(*prompt.parts[:index], replace(part, text=before)))
    return None
