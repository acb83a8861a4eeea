"""Contents that are watched while a chat template renders them, and what it decided on them.

A `Watched` text notes each question that a template asks of it: is it empty, does it start with
this. Whatever else is done to it means that the run says nothing about other contents. Everything
that reads a text is overridden, so that nothing goes unseen.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, SupportsIndex

from prompts.chat_rope import Origin, Part, Rope, SafeRope

# What can't be reached from a template, and what reads no characters.
_SILENT = frozenset(
    (
        *("__new__", "__init__", "__class__", "__getattribute__", "__setattr__", "__delattr__"),
        *("__dir__", "__init_subclass__", "__subclasshook__", "__sizeof__", "__doc__"),
        *("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "maketrans"),
        "__str__",  # the text itself
    )
)

QUESTIONS: Mapping[str, Callable[[str, Any], bool]] = {
    "bool": lambda text, _: bool(text),
    "eq": operator.eq,
    "contains": str.__contains__,
    "startswith": str.startswith,
    "endswith": str.endswith,
}


class Trim(NamedTuple):
    """A `strip`, `lstrip` or `rstrip` of these characters; None: of blanks."""

    left: bool
    right: bool
    characters: str | None

    def apply(self, text: str) -> tuple[str, int]:
        """The trimmed text, and how many characters went at its front."""
        kept = text.lstrip(self.characters) if self.left else text
        skipped = len(text) - len(kept)
        return (kept.rstrip(self.characters) if self.right else kept), skipped


class Hole(NamedTuple):
    """Where a message's text goes, trimmed so."""

    origin: Origin
    trims: tuple[Trim, ...] = ()


class Guard(NamedTuple):
    """A question about a text of a message."""

    hole: Hole
    question: str
    argument: str | tuple[str, ...] | None = None


class Watch:
    """What one rendering asked; `followed` is False once something can't be put as a guard."""

    __slots__ = ("answers", "followed")

    def __init__(self) -> None:
        self.answers: dict[Guard, bool] = {}
        self.followed = True

    def text(self, text: str, origin: Origin) -> "Watched":
        """A text of a message, watched from now on."""
        return _leaf(self, text, Hole(origin), 0)


class Watched(Rope):
    """A text of a message, or one that has such texts in it."""

    __slots__ = ("hole", "texts", "watch")
    is_watched = True
    watch: Watch
    hole: Hole | None
    texts: tuple[str, ...]

    def beside(self, texts: tuple[str, ...]) -> Rope:
        """Texts one after the other, this one among them."""
        kept = tuple([text for text in texts if isinstance(text, Watched) or str.__len__(text)])
        if len(kept) == 1:
            return self
        whole = Watched.joined(kept)
        whole.watch, whole.hole, whole.texts = self.watch, None, kept
        return whole

    def lose(self) -> None:
        """Note that something is done which can't be followed."""
        self.watch.followed = False

    def __add__(self, other: object) -> Rope:
        if not isinstance(other, str) or isinstance(other, SafeRope):
            return NotImplemented
        return self.beside((self, other))

    def __radd__(self, other: object) -> Rope:
        return self.beside((other, self)) if isinstance(other, str) else NotImplemented

    def __bool__(self) -> bool:
        own = any(not isinstance(text, Watched) for text in self.texts)
        return True if own else self._answer("bool", None, str.__len__(self) > 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return False
        return self._answer("eq", other, str.__eq__(self, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __contains__(self, part: object) -> bool:
        return self._answer("contains", part, str.__contains__(self, part))  # type: ignore[operator]

    def startswith(self, *args: Any) -> bool:
        """Noted with its one argument."""
        return self._answer("startswith", *args[:1], str.startswith(self, *args), *args[1:])

    def endswith(self, *args: Any) -> bool:
        """Noted with its one argument."""
        return self._answer("endswith", *args[:1], str.endswith(self, *args), *args[1:])

    def strip(self, chars: str | None = None, /) -> Rope:
        return self._trimmed(Trim(True, True, chars))

    def lstrip(self, chars: str | None = None, /) -> Rope:
        return self._trimmed(Trim(True, False, chars))

    def rstrip(self, chars: str | None = None, /) -> Rope:
        return self._trimmed(Trim(False, True, chars))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Rope]:  # type: ignore[override]
        """A text without the separator stays whole."""
        if self._lacks(sep):
            return [self]
        return Rope.split(self, sep, maxsplit)

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Rope:
        """A text without the old words stays as it is."""
        if self._lacks(old) and _plain(new):
            return self
        self.lose()
        return Rope.replace(self, old, new, count)

    def _lacks(self, part: str | None) -> bool:
        """Whether a part is not in this text, noted; what is done to it where it is, is not."""
        found = not part or part in self
        if found:
            self.lose()
        return not found

    def _answer(self, question: str, argument: Any, answer: bool, *more: object) -> bool:
        if self.hole is None or more or not _plain(argument):
            self.lose()
        else:
            self.watch.answers[Guard(self.hole, question, argument)] = answer
        return answer

    def _trimmed(self, trim: Trim) -> Rope:
        if self.hole is None or not _plain(trim.characters):
            self.lose()
            skipped = str.__len__(self) - str.__len__(str.lstrip(self, trim.characters))
            start = skipped if trim.left else 0
            stop = str.__len__(str.rstrip(self, trim.characters)) if trim.right else len(self)
            return self.cut(start, max(start, stop))
        text, skipped = trim.apply(self.plain_slice(0, str.__len__(self)))
        hole = Hole(self.hole.origin, (*self.hole.trims, trim))
        return _leaf(self.watch, text, hole, skipped + sum(p.offset for p in self.parts[:1]))


def _leaf(watch: Watch, text: str, hole: Hole, offset: int) -> Watched:
    leaf = Watched.build(text, (Part(len(text), hole.origin, offset),))
    leaf.watch, leaf.hole, leaf.texts = watch, hole, ()
    return leaf


def _plain(argument: object) -> bool:
    """Whether an argument is the template's own."""
    if isinstance(argument, tuple):
        return all(type(item) is str for item in argument)
    return argument is None or type(argument) is str


def lose_within(*values: object) -> None:
    """Note that watched texts in the values are given to something that can't be followed."""
    for value in values:
        match value:
            case Watched():
                value.lose()
            case list() | tuple():
                lose_within(*value)
            case dict():
                lose_within(*value.keys(), *value.values())


def leaves(rendered: str) -> Iterator[str]:
    """The texts of which a rendered one was made: own ones, a tool's, and leaves with a hole."""
    waiting: list[Iterator[str]] = [iter((rendered,))]
    while waiting:
        text = next(waiting[-1], None)
        if text is None:
            waiting.pop()
        elif isinstance(text, Watched) and text.hole is None:
            waiting.append(iter(text.texts))
        else:
            yield text


def _losing(base: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Watched, *args: Any, **kwargs: Any) -> Any:
        self.lose()
        return base(self, *args, **kwargs)

    return method


def _unfollowed() -> Iterable[str]:
    """Everything a string can do that `Watched` doesn't note."""
    return (
        name
        for name in dir(str)
        if (name not in _SILENT and name not in vars(Watched)) or name == "__hash__"
    )


for _name in _unfollowed():
    setattr(Watched, _name, _losing(getattr(Rope, _name)))
