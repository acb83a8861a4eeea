"""Text that remembers where it came from, so that a chat template can be watched at its work.

A `Rope` is a string some characters of which are a message's or a tool's, the others the chat
template's own. Whatever a template does to it, slicing, trimming, splitting, joining, the result
knows the same. What can't be followed raises `ChatTemplateError`: text of unknown origin could
spell a control token.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, SupportsIndex

from prompts.errors import ChatTemplateError

# What Jinja escapes in text that isn't marked as safe.
_ESCAPED = frozenset("&<>'\"")


class Origin(NamedTuple):
    """Whose text it is: a field of the message with this index; None stands for the tools."""

    message: int | None
    field: str


class Part(NamedTuple):
    """So many characters of one origin, from `offset` on in it; no origin: the template's own."""

    length: int
    origin: Origin | None
    offset: int


class Rope(str):
    """A string with the origins of its characters: the lengths of `parts` add up to its own.

    Templates join far more often than they cut, so that a joined rope finds its parts when asked.
    """

    __slots__ = ("_joined", "_parts")
    is_watched: ClassVar[bool] = False
    _parts: tuple[Part, ...] | None
    _joined: tuple[str, ...]

    @classmethod
    def of(cls, text: str, origin: Origin | None = None) -> Self:
        """A text of one origin."""
        rope = cls(text)
        rope._parts = (Part(len(text), origin, 0),) if text else ()
        return rope

    @classmethod
    def build(cls, text: str, parts: Iterable[Part]) -> Self:
        """A text with its parts."""
        rope = cls(text)
        rope._parts = tuple(part for part in parts if part.length)
        return rope

    @classmethod
    def joined(cls, texts: tuple[str, ...]) -> Self:
        """Texts one after the other."""
        rope = cls("".join(texts))
        rope._parts = None
        rope._joined = texts
        return rope

    @property
    def parts(self) -> tuple[Part, ...]:
        """Whose the characters are, in order."""
        if self._parts is None:
            self._parts = tuple(_flat(self._joined))
            self._joined = ()
        return self._parts

    @property
    def foreign(self) -> Origin | None:
        """The first origin that isn't the template."""
        return next((part.origin for part in self.parts if part.origin is not None), None)

    def beside(self, texts: tuple[str, ...]) -> "Rope":
        """Texts one after the other, this one among them."""
        return Rope.joined(texts)

    def blurred(self, text: str) -> "Rope":
        """What became of the whole, where characters can't be followed: nothing in it is own."""
        if len(text) == len(self):
            return Rope.build(text, self.parts)
        return Rope.of(text, self.foreign)

    def cut(self, start: int, stop: int) -> "Rope":
        """The characters `start <= i < stop`."""
        if start == 0 and stop >= len(self):
            return self
        return Rope.build(str.__getitem__(self, slice(start, stop)), self._parts_of(start, stop))

    def plain_slice(self, start: int, stop: int) -> str:
        """The characters `start <= i < stop`, as a plain string."""
        return str.__getitem__(self, slice(start, stop))

    def _parts_of(self, start: int, stop: int) -> Iterator[Part]:
        position = 0
        for length, origin, offset in self.parts:
            first, last = max(start, position), min(stop, position + length)
            if first < last:
                yield Part(last - first, origin, offset + first - position)
            position += length

    def __str__(self) -> str:
        return self

    def __repr__(self) -> str:
        return str.__repr__(self)

    def __add__(self, other: object) -> "Rope":
        return Rope.joined((self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: object) -> "Rope":
        return Rope.joined((other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> "Rope":
        return join((self,) * int(times))

    __rmul__ = __mul__

    def __getitem__(self, key: SupportsIndex | slice) -> "Rope":
        if not isinstance(key, slice):
            index = range(len(self))[key]
            return self.cut(index, index + 1)
        start, stop, step = key.indices(len(self))
        if step == 1:
            return self.cut(start, max(start, stop))
        return join(self.cut(i, i + 1) for i in range(start, stop, step))

    def __iter__(self) -> Iterator["Rope"]:
        return (self.cut(i, i + 1) for i in range(len(self)))

    def strip(self, chars: str | None = None, /) -> "Rope":
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars: str | None = None, /) -> "Rope":
        return self.cut(len(self) - len(str.lstrip(self, chars)), len(self))

    def rstrip(self, chars: str | None = None, /) -> "Rope":
        return self.cut(0, len(str.rstrip(self, chars)))

    def removeprefix(self, prefix: str, /) -> "Rope":
        return self.cut(len(self) - len(str.removeprefix(self, prefix)), len(self))

    def removesuffix(self, suffix: str, /) -> "Rope":
        return self.cut(0, len(str.removesuffix(self, suffix)))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list["Rope"]:  # type: ignore[override]
        if sep is None:
            return self._located(str.split(self, sep, maxsplit))
        return self._located(str.split(self, sep, maxsplit), gap=len(sep))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list["Rope"]:  # type: ignore[override]
        if sep is None:
            return self._located(str.rsplit(self, sep, maxsplit))
        return self._located(str.rsplit(self, sep, maxsplit), gap=len(sep))

    def splitlines(self, keepends: bool = False) -> list["Rope"]:  # type: ignore[override]
        lines = self._located(str.splitlines(self, keepends=True), gap=0)
        return lines if keepends else [line.cut(0, len(_chomp(line))) for line in lines]

    def partition(self, sep: str, /) -> tuple["Rope", "Rope", "Rope"]:
        at = str.find(self, sep)
        at = len(self) if at < 0 else at
        return self.cut(0, at), self.cut(at, at + len(sep)), self.cut(at + len(sep), len(self))

    def rpartition(self, sep: str, /) -> tuple["Rope", "Rope", "Rope"]:
        at = str.rfind(self, sep)
        if at < 0:
            return self.cut(0, 0), self.cut(0, 0), self
        return self.cut(0, at), self.cut(at, at + len(sep)), self.cut(at + len(sep), len(self))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> "Rope":
        if not old:
            return self.blurred(str.replace(self, old, new, count))
        return join(self.split(old, count), new)

    def join(self, texts: Iterable[str], /) -> "Rope":
        return join(texts, self)

    def upper(self) -> "Rope":
        return self.blurred(str.upper(self))

    def lower(self) -> "Rope":
        return self.blurred(str.lower(self))

    def title(self) -> "Rope":
        return self.blurred(str.title(self))

    def capitalize(self) -> "Rope":
        return self.blurred(str.capitalize(self))

    def casefold(self) -> "Rope":
        return self.blurred(str.casefold(self))

    def swapcase(self) -> "Rope":
        return self.blurred(str.swapcase(self))

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ChatTemplateError("it formats or encodes the text of messages")

    format = format_map = translate = encode = expandtabs = _refuse
    zfill = center = ljust = rjust = _refuse
    __mod__ = __rmod__ = __format__ = _refuse

    def _located(self, texts: list[str], *, gap: int | None = None) -> list["Rope"]:
        """The texts as parts of this one; they follow each other, `gap` characters apart."""
        found, position = [], 0
        for text in texts:
            start = str.find(self, text, position) if gap is None else position
            found.append(self.cut(start, start + len(text)))
            position = start + len(text) + (gap or 0)
        return found


class SafeRope(Rope):
    """What the filter `safe` makes: Jinja escapes unsafe text that is put beside it."""

    __slots__ = ()

    def __add__(self, other: object) -> "SafeRope":
        return SafeRope.joined((self, _unescaped(other)))

    def __radd__(self, other: object) -> "SafeRope":
        return SafeRope.joined((_unescaped(other), self))


def _unescaped(value: object) -> str:
    """The text, where escaping would leave it as it is."""
    if isinstance(value, str) and (isinstance(value, SafeRope) or not _ESCAPED & set(value)):
        return value
    raise ChatTemplateError("it puts text that needs escaping beside what it marked as safe")


def join(texts: Iterable[object], between: str = "") -> Rope:
    """All texts as one, with `between` in between."""
    items: list[str] = []
    for item in texts:
        if items and between:
            items.append(between)
        items.append(item if isinstance(item, str) else spell(item))
    return _as_one(tuple(items), Rope())


def concatenate(texts: Iterable[object]) -> str:
    """All texts as one: a plain string where no part of it is foreign."""
    items = tuple([item if isinstance(item, str) else spell(item) for item in texts])
    first = next((item for item in items if isinstance(item, Rope)), None)
    return "".join(items) if first is None else _as_one(items, first)


def _as_one(items: tuple[str, ...], first: Rope) -> Rope:
    """Texts as one rope, of the most special kind among them."""
    kind = next((item for item in items if isinstance(item, Rope) and item.is_watched), first)
    return kind.beside(items)


def spell(value: object) -> str:
    """A value as a template prints it."""
    if isinstance(value, str):
        return value
    origin = origin_within(value)
    return str(value) if origin is None else Rope.of(str(value), origin)


def origin_within(value: object) -> Origin | None:
    """The first foreign origin in a value or in what it holds."""
    match value:
        case Rope():
            return value.foreign
        case str():
            return None
        case Mapping():
            return _first_origin(item for pair in value.items() for item in pair)
        case list() | tuple():
            return _first_origin(value)
        case _:
            return None


def tracked(value: Any, origin: Origin) -> Any:
    """A JSON value in which every text, keys too, is of this origin."""
    match value:
        case str():
            return Rope.of(value, origin)
        case list():
            return [tracked(item, origin) for item in value]
        case dict():
            return {Rope.of(key, origin): tracked(item, origin) for key, item in value.items()}
        case _:
            return value


def _first_origin(values: Iterable[object]) -> Origin | None:
    for value in values:
        if (origin := origin_within(value)) is not None:
            return origin
    return None


def _flat(texts: tuple[str, ...]) -> Iterator[Part]:
    """The parts of all texts; without recursion, since a template may join in a loop."""
    waiting = [iter(texts)]
    while waiting:
        text = next(waiting[-1], None)
        if text is None:
            waiting.pop()
        elif not isinstance(text, Rope):
            if text:
                yield Part(len(text), None, 0)
        elif text._parts is None:
            waiting.append(iter(text._joined))
        else:
            yield from text._parts


def _chomp(line: str) -> str:
    """A line without its end, whatever `splitlines` takes for one."""
    return str(str.splitlines(line)[0]) if line else ""
