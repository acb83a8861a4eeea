"""What a prompt source is made of, in the order it is sent. Values only."""

from dataclasses import dataclass, field

import jinja2.nodes

from prompts.lint.vocabulary import Kind
from prompts.segments import Volatility


@dataclass(frozen=True, slots=True)
class Nature:
    """What is known of an expression: where its value comes from.

    `proven` kinds were seen as a call; the others follow from names. `names` are the variables it
    depends on; without any, and without kinds, it is a constant. `declared` is the volatility of
    a declared variable.
    """

    kinds: frozenset[Kind] = frozenset()
    proven: frozenset[Kind] = frozenset()
    names: frozenset[str] = frozenset()
    declared: Volatility | None = None

    @property
    def constant(self) -> bool:
        return not self.names and not self.kinds

    def __or__(self, other: "Nature") -> "Nature":
        if other is CONSTANT:
            return self
        if self is CONSTANT:
            return other
        volatilities = [n.declared for n in (self, other) if n.declared is not None]
        return Nature(
            self.kinds | other.kinds,
            self.proven | other.proven,
            self.names | other.names,
            max(volatilities, default=None),
        )

    def plus(self, kind: Kind, *, proven: bool = True) -> "Nature":
        """The same, and made from one more kind."""
        certain = self.proven | {kind} if proven else self.proven
        return Nature(self.kinds | {kind}, certain, self.names, self.declared)


CONSTANT = Nature()


@dataclass(frozen=True, slots=True)
class Text:
    """Literal text; `certain` unless a branch or a loop decides whether it is sent."""

    start: int
    stop: int
    text: str
    certain: bool


@dataclass(frozen=True, slots=True)
class Value:
    """Something filled in: an output tag, a placeholder, a conversation.

    `nested` says that a loop or branch around it depends on values too.
    """

    start: int
    stop: int
    nature: Nature
    nested: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """A conditional.

    `outputs` are the names that its bodies send; `empty` says that they send no words, `blank` that
    they hold nothing but whitespace that isn't only layout.
    """

    start: int
    stop: int
    nature: Nature
    nested: bool
    outputs: frozenset[str]
    empty: bool
    blank: bool


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over a value."""

    start: int
    stop: int
    nature: Nature
    nested: bool


Piece = Text | Value | Fork | Loop


@dataclass(frozen=True, slots=True)
class Call:
    """A call: the dotted name called (empty if it has none), and the filters around it."""

    node: jinja2.nodes.Call
    dotted: str
    nature: Nature
    around: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter, what it is applied to, and the filters around it."""

    node: jinja2.nodes.Filter
    nature: Nature
    around: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """`value[start:stop]`."""

    node: jinja2.nodes.Getitem
    nature: Nature


@dataclass(frozen=True, slots=True)
class Attribute:
    """`value.name` or `value["name"]`, `sent` where it is (part of) an output."""

    node: jinja2.nodes.Getattr | jinja2.nodes.Getitem
    name: str
    nature: Nature
    sent: bool


@dataclass(frozen=True, slots=True)
class Branch:
    """An `{% if %}` with what its test depends on, and the loops around it."""

    node: jinja2.nodes.If
    nature: Nature
    loops: tuple[Nature, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A `{% for %}` with what it loops over, and the branches' tests inside it."""

    node: jinja2.nodes.For
    nature: Nature


@dataclass(frozen=True, slots=True)
class Reference:
    """An include, import or extends; `name` is None where it isn't a constant."""

    offset: int
    name: str | None
    optional: bool


@dataclass(slots=True)
class Facts:
    """What the rules look at, met in one walk over the tree."""

    pieces: list[Piece] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    filters: list[Filter] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    operations: list[jinja2.nodes.BinExpr] = field(default_factory=list)
    # (offset, role) where a block says that a message of that role starts.
    roles: list[tuple[int, str]] = field(default_factory=list)
