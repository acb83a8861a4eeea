"""What findings in Python source say: what is wrong, and what to do about it."""

from collections.abc import Mapping
from types import MappingProxyType

TO_THE_END = "put it into the last user turn, or behind all text that stays the same"

# Code -> (what is wrong, what to do); {0} is the code at fault, {1} the part of the prompt.
MESSAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "FW101": (
            "`{0}` differs from request to request and stands in {1} before fixed text",
            TO_THE_END,
        ),
        "FW102": ("`{0}` puts the time into {1} before text that stays the same", TO_THE_END),
        "FW103": (
            "`{0}` puts a value that is new each time into {1} before text that stays the same",
            TO_THE_END,
        ),
        "FW104": (
            "`{0}` puts one user's data into {1} before text that all users share",
            TO_THE_END,
        ),
        "FW106": (
            "`{0}` decides what {1} says before text that stays the same, so the prefix forks",
            "say it behind all shared text",
        ),
        "FW107": (
            "`{0}` picks at random what {1} shows before text that stays the same",
            "show the same examples in the same order each time",
        ),
        "FW205": (
            "`{0}` formats by the locale of its process and goes into {1} before fixed text",
            "use a fixed format such as `:.2f` or `%Y-%m-%d`",
        ),
        "FW208": (
            "`{0}` writes keys into {1} in the order that they happen to have",
            "pass `sort_keys=True`",
        ),
        "FW209": ("`{0}` has no fixed order and goes into {1}", "wrap it in `sorted(…)`"),
        "FW210": (
            "`{0}` differs between machines and stands in {1} before text that stays the same",
            "leave it out, or put it behind all fixed text",
        ),
        "FW401": ("`{0}` has no fixed order and makes up {1}", "sort the tools by name"),
        "FW403": (
            "`{0}` decides what is in {1}; where it differs, all text behind the tools is lost",
            "send the same tools each time, and name those that may be used in the last user turn "
            "or by `tool_choice`",
        ),
        "FW404": (
            "`{0}` writes {1} anew, so its bytes need not be those that the engine holds",
            "keep the text as it came",
        ),
        "FW405": (
            "`{0}` changes {1}, and tools come before everything else",
            "put it into the last user turn",
        ),
        "FW501": (
            "`{0}` puts retrieved text into {1} before text that stays the same",
            "put all fixed text first",
        ),
        "FW503": (
            "`{0}` writes a score into {1}, and scores differ for each question",
            "leave it out",
        ),
        "FW602": (
            "`{0}` cuts {1} off at the front: with each turn all of it moves, and nothing behind "
            "the cut is re-used",
            "keep the beginning; when it must be cut, cut much at once and rarely",
        ),
        "FW603": (
            "`{0}` replaces the start of {1} by a summary, so nothing behind it is re-used",
            "summarise rarely, and keep a summary as it is until the next",
        ),
        "FW604": (
            "`{0}` takes the reasoning out of {1}, so it is no longer the text that the engine "
            "holds",
            "keep the answer as it came, unless the model needs it stripped (then this cost is "
            "inherent)",
        ),
    }
)
