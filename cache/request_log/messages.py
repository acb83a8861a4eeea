"""The sentences of findings: what differs between requests, shown by two of them, and the cure."""

from cache.request_log.causes import FIRST, Cause
from cache.request_log.judge import Judged
from cache.request_log.visible import differing, excerpt

_WHAT = {
    "FW101": ("a value that changes stands before text that is shared", "move it behind that text"),
    "FW102": ("a date or time changes", "move it into the last user turn"),
    "FW103": (
        "an id made for each request changes",
        "leave it out or move it to the last user turn",
    ),
    "FW104": (
        "a user's or tenant's own data stands before shared text",
        "move it behind that text",
    ),
    "FW105": ("the question stands before the context", "put the question last"),
    "FW106": ("text that only some requests have forks the prefix", "move it behind shared text"),
    "FW107": ("examples are chosen anew for requests", "always send the same examples"),
    "FW201": ("blanks at the ends of lines differ", "strip them"),
    "FW202": ("line ends differ (CR LF and LF)", "send LF only"),
    "FW203": ("Unicode forms differ (NFC and NFD)", "normalise to NFC"),
    "FW204": ("the keys of a mapping come in another order", "sort them"),
    "FW205": ("numbers are written by another locale's rules", "format them in one fixed way"),
    "FW206": ("blanks and blank lines differ", "fix the whitespace of the template"),
    "FW207": ("invisible characters or special blanks differ", "remove them"),
    "FW208": ("the keys of JSON in the text come in another order", "write JSON with sorted keys"),
    "FW209": ("the items of a collection come in another order", "sort them"),
    "FW401": ("tools come in another order", "sort them by name"),
    "FW402": ("the keys of tool schemas come in another order", "write schemas with sorted keys"),
    "FW403": ("the set of tools changes", "send all tools every time, or the same set"),
    "FW404": ("tool calls or results are written anew later", "send them back as they came"),
    "FW405": ("a tool's own text changes", "keep values that change out of tool descriptions"),
    "FW501": ("documents stand before text that is shared", "put the documents last"),
    "FW502": ("the same documents come in another order", "order them by id, not by score"),
    "FW504": ("one message holds the same passage twice", "send each passage once"),
    "FW601": ("an earlier message is sent differently later", "append to a history, never edit it"),
    "FW602": ("a history loses its oldest messages", "cut rarely and by large steps, if at all"),
    "FW603": ("a summary takes the place of earlier turns", "summarise rarely, not every turn"),
    "FW604": (
        "an answer's reasoning is gone from the history",
        "this is inherent where the model's chat template drops it; else send it back",
    ),
    "FW605": ("what was put into a turn is missing from it later", "keep turns as they were sent"),
}


# Where the user's turn comes first, what changes in it is there already.
_IN_FIRST = {
    "FW102": "put it behind the text that stays the same",
    "FW103": "leave it out or put it behind the text that stays the same",
}


def cause_message(judged: Judged, *, exact: bool, lines: tuple[int, int]) -> str:
    """What a cause is, where two requests show it, what it costs, and what to do."""
    what, cure = _WHAT[judged.cause.code]
    if judged.cause.part == FIRST:
        cure = _IN_FIRST.get(judged.cause.code, cure)
    about = "" if exact else "≈"
    return (
        f"In the {judged.cause.part}, {what}: {_shown(judged.cause, lines)}. "
        f"{judged.affected:,} of {judged.tried:,} requests compute {about}{judged.each:,} tokens "
        f"again for it; {cure}."
    )


def _shown(cause: Cause, lines: tuple[int, int]) -> str:
    if cause.earlier == cause.later:
        return f"{excerpt(cause.one.strip(), span=48)} in line {lines[1]}"
    one, other = differing(cause.one, cause.other)
    return f"{one} in line {lines[0]}, {other} in line {lines[1]}"
