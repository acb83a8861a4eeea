"""What a template file says, typed and checked. `template_file` reads them, `render` uses them."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import jinja2

from prompts.formats import DateFormat, NumberFormat
from prompts.invisible import InvisibleKind
from prompts.segments import Volatility
from prompts.source_map import SourceMap


class VariableType(StrEnum):
    """What a variable holds."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    DATE = "date"
    DOCUMENTS = "documents"
    MESSAGES = "messages"
    TOOLS = "tools"
    JSON = "json"


TEXT_TYPES = (VariableType.TEXT, VariableType.DOCUMENTS, VariableType.MESSAGES)
"""The types whose text is normalised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A declared variable. An `optional` one renders as empty when it isn't given.

    `format` is set for numbers and dates. Without `normalize` its text goes in as it is given: no
    change of line ends, Unicode form or byte-order mark. `line` and `column` are its name's.
    """

    name: str
    type: VariableType
    volatility: Volatility
    optional: bool = False
    format: NumberFormat | DateFormat | None = None
    normalize: bool = True
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of a template: Jinja `source` under `role`, or the `messages` variable it expands.

    `source` is the text as the file has it; what is rendered is its canonical form, `code`, or
    `constant` where no variable is used. `printed` has short texts that it made of texts lately:
    most prompts begin as others did. `line` is where the segment stands in its file, from 1,
    and `source_map` where each character of the source does.
    """

    id: str
    volatility: Volatility
    line: int = field(compare=False)
    role: str | None = None
    source: str = ""
    messages: str | None = None
    uses: tuple[str, ...] = ()
    allow: frozenset[InvisibleKind] = frozenset()
    constant: str | None = None
    code: jinja2.Template | None = field(default=None, compare=False, repr=False)
    printed: dict[tuple[str, ...], str] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    source_map: SourceMap | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A named, versioned list of segments; `tools` names the variable that holds the tools."""

    name: str
    version: int
    path: Path
    variables: dict[str, Variable]
    segments: tuple[Segment, ...]
    tools: str | None = None

    @property
    def reference(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"
