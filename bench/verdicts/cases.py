"""What a labelled case is: requests, a disturbance, and what has to be said of the last request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

JSONObject = dict[str, Any]


class Site(StrEnum):
    """The gateway that a case is sent to.

    `PLAIN` knows all there is. `DEAF` gets its KV events through a line that drops some, and can't
    ask for them again. `SILENT` has an engine without cache report, `EVENTLESS` one without events.
    """

    PLAIN = "plain"
    DEAF = "deaf"
    SILENT = "silent"
    EVENTLESS = "eventless"


class Disturbance(StrEnum):
    """What happens between a case's first requests and its last one."""

    NONE = "none"
    FLUSH = "flush"
    OVERFLOW = "overflow"
    DROP = "drop events"
    DROP_AND_FLUSH = "drop events and flush"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request: a template, what goes into it, and the collection whose salt it is sent under."""

    template: str
    messages: Sequence[JSONObject]
    variables: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[JSONObject] = ()
    collection: str | None = None
    output_tokens: int = 2
    stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What the accounting has to say.

    Attributes:
        verdict: the verdict; with several reasons the one that costs most.
        reasons: exactly the reasons that cost tokens; none of them for `hit` and `cold`, and none
            where the engine doesn't report what it re-uses.
        causes: the verdict's cause is one of these; None: not asked for.
        tokens: what reasons cost exactly, where what was sent determines it.
    """

    verdict: str
    reasons: frozenset[str] = frozenset()
    causes: frozenset[str] | None = None
    tokens: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_mixed(self) -> bool:
        """Whether several reasons are to be named."""
        return len(self.reasons) > 1

    @property
    def name(self) -> str:
        """Its line in the table."""
        return " + ".join(sorted(self.reasons)) if self.is_mixed else self.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One injected cause, or several at once, in one request.

    `burst` copies of the last request are sent at the same moment; then the label is made from what
    the engine says that it re-used.
    """

    kind: str
    first: Sequence[Question]
    last: Question
    label: Label
    site: Site = Site.PLAIN
    between: Disturbance = Disturbance.NONE
    burst: int = 1
