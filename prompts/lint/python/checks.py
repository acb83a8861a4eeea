"""Faults of a sent prompt: which cause stands before text that would otherwise be shared."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

from prompts.lint.python.frame import union
from prompts.lint.python.layout import Layout, Turn
from prompts.lint.python.taints import CLEAN, PER_REQUEST, Kind, Taint, Taints, has
from prompts.lint.python.values import Constant, Items, Opaque, Part, Value, is_fixed, taints_of
from prompts.lint.python.vocabulary import is_summary, is_tool_choice

# Fixed text that isn't spelled out in the file counts as a sentence or two.
_UNSEEN_LETTERS = 64
# Below these many letters behind it, a cause costs nothing worth a word.
_FEW_LETTERS = 8
_SENTENCE_LETTERS = 40
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A rule's code, its cause, where in the prompt it stands, and the call that sends it.

    `before` and `after` are the known texts around it, None where not all of them is known.
    """

    code: str
    taint: Taint
    where: str
    line: int
    label: str
    before: str | None = None
    after: str | None = None


_POSITIONAL = MappingProxyType(
    {
        Kind.CLOCK: "FW102", Kind.IDENTIFIER: "FW103", Kind.USER: "FW104", Kind.SAMPLE: "FW107",
        Kind.LOCALE: "FW205", Kind.MACHINE: "FW210", Kind.DOCUMENTS: "FW501",
        Kind.QUESTION: "FW101", Kind.TURN: "FW101", Kind.SCORE: "FW503",
    }
)  # fmt: skip
_NEEDS_SENTENCE = frozenset({Kind.DOCUMENTS, Kind.QUESTION, Kind.TURN, Kind.SCORE})
# A raw prompt is made of them.
_SYSTEM_ONLY = frozenset({Kind.QUESTION, Kind.TURN})
# In the last user turn only these are worth moving, and only before a page of fixed text.
_IN_TAIL = frozenset({Kind.CLOCK, Kind.IDENTIFIER, Kind.USER, Kind.SAMPLE, Kind.DOCUMENTS})
_ANYWHERE = MappingProxyType(
    {Kind.SET_ORDER: "FW209", Kind.LISTING: "FW209", Kind.JSON_ORDER: "FW208"}
)
_ORDER = MappingProxyType({Kind.SAMPLE: "FW107", Kind.SET_ORDER: "FW209", Kind.LISTING: "FW209"})
_REBUILT = frozenset({Kind.CLOCK, Kind.IDENTIFIER, Kind.SAMPLE})
_TOOL_ORDER = frozenset({Kind.SET_ORDER, Kind.LISTING, Kind.TOOL_LISTING})


def faults_of(layout: Layout, *, page_size: int) -> Iterator[Fault]:
    """All faults of one sent prompt."""
    yield from _tool_faults(layout)
    yield from _history_faults(layout)
    page = page_size * _CHARACTERS_PER_TOKEN
    for number, turn in enumerate(layout.turns):
        if turn.repeated:
            yield from _rebuilt_faults(layout, turn)
        else:
            yield from _turn_faults(layout, number, turn, page)


def _turn_faults(layout: Layout, number: int, turn: Turn, page: int) -> Iterator[Fault]:
    is_question = turn.tail or turn.role in ("user", "assistant", "tool")
    behind = 0 if is_question else _behind(layout, number, page)
    for position, part in enumerate(turn.text.parts):
        after = letters(turn.text.parts[position + 1 :]) + behind
        if is_question and after < page:
            continue
        for code, taint in _part_faults(part, after, is_question=is_question):
            if layout.raw and taint.kind in _SYSTEM_ONLY:
                continue
            yield _fault(layout, number, position, code, taint)


def _part_faults(part: Part, after: int, *, is_question: bool) -> Iterator[tuple[str, Taint]]:
    for taint in part.taints:
        needed = _SENTENCE_LETTERS if taint.kind in _NEEDS_SENTENCE else _FEW_LETTERS
        code = _POSITIONAL.get(taint.kind)
        if code is not None and after >= needed and (not is_question or taint.kind in _IN_TAIL):
            yield code, taint
        elif taint.kind in _ANYWHERE and not is_question and _is_only_order(part):
            yield _ANYWHERE[taint.kind], taint
    if after >= _SENTENCE_LETTERS and not is_question:
        yield from (("FW106", t) for t in part.forks if t.kind in PER_REQUEST)


def _is_only_order(part: Part) -> bool:
    """Whether only the order of the part differs: else it differs anyway, sorted or not."""
    return not any(t.kind in PER_REQUEST for t in part.taints)


def _behind(layout: Layout, number: int, page: int) -> int:
    """Letters of fixed text in the turns behind one, as far as they could be shared."""
    found = 0
    for turn in layout.turns[number + 1 :]:
        if turn.tail:
            opening = letters(_opening(turn))
            found += opening if opening >= page else 0
            break
        found += _UNSEEN_LETTERS if turn.repeated else letters(turn.text.parts)
    is_system = layout.turns[number].role == "system"
    return found + (_UNSEEN_LETTERS if is_system and _has_fixed_tools(layout) else 0)


def _opening(turn: Turn) -> tuple[Part, ...]:
    parts = turn.text.parts
    length = next((i for i, part in enumerate(parts) if not part.fixed), len(parts))
    return parts[:length]


def _has_fixed_tools(layout: Layout) -> bool:
    tools = layout.tools
    return tools is not None and tools != Constant(None) and is_fixed(tools) and tools != Items()


def letters(parts: tuple[Part, ...]) -> int:
    """Letters and digits of fixed text."""
    return sum(_letters(part) for part in parts if part.fixed and not part.taints)


def _letters(part: Part) -> int:
    if part.text is None:
        return _UNSEEN_LETTERS
    return sum(character.isalnum() for character in part.text)


def _rebuilt_faults(layout: Layout, turn: Turn) -> Iterator[Fault]:
    """Turns that are made anew for every prompt: a clock in them changes them all."""
    for taint in union(part.taints for part in turn.text.parts):
        is_new = turn.rebuilt and taint.kind in _REBUILT and taint.sure
        if is_new or taint.kind is Kind.SAMPLE:
            yield _named(layout, _POSITIONAL[taint.kind], taint, "the earlier turns")


def _history_faults(layout: Layout) -> Iterator[Fault]:
    prefix = [turn for turn in layout.turns if not turn.tail]
    repeated = [turn for turn in layout.turns if turn.repeated]
    cut = layout.order | union(_taints(turn) for turn in repeated if not turn.tail)
    if layout.raw:
        cut |= union(_taints(turn) for turn in prefix)
    code = "FW603" if any(_is_summary(turn) for turn in prefix) else "FW602"
    for taint in cut:
        if taint.kind is Kind.TRUNCATED and (taint.sure or not layout.raw):
            yield _named(layout, code, taint, "the conversation")
    for taint in layout.order:
        if taint.kind in _ORDER:
            yield _named(layout, _ORDER[taint.kind], taint, "the messages")
    for turn in layout.turns:
        if turn.role in ("assistant", "tool", ""):
            yield from _answer_faults(layout, turn)


def _answer_faults(layout: Layout, turn: Turn) -> Iterator[Fault]:
    for taint in _taints(turn):
        if taint.kind is Kind.STRIPPED and turn.role != "tool" and not layout.raw:
            yield _named(layout, "FW604", taint, "an earlier answer")
        elif taint.kind is Kind.RESERIALISED:
            yield _named(layout, "FW404", taint, "an earlier tool call or result")


def _taints(turn: Turn) -> Taints:
    return turn.taints | union(part.taints for part in turn.text.parts)


def _is_summary(turn: Turn) -> bool:
    return any(is_summary(part.name.rpartition(".")[2]) for part in turn.text.parts)


def _tool_faults(layout: Layout) -> Iterator[Fault]:
    if layout.tools is None or layout.tools == Constant(None):
        return
    forks = _forks(layout.tools)
    for taint in taints_of(layout.tools):
        if taint.kind in _TOOL_ORDER:
            yield _named(layout, "FW401", taint, "the tool list")
        elif taint.kind in PER_REQUEST and (taint in forks or _is_choice(layout.tools, taint)):
            yield _named(layout, "FW403", taint, "the tool list")
        elif taint.kind in (Kind.CLOCK, Kind.IDENTIFIER, Kind.USER, Kind.MACHINE):
            yield _named(layout, "FW405", taint, "a tool's description")


def _forks(tools: Value) -> Taints:
    """Conditions on tools of one's own; tools that come with the request are the client's."""
    if not isinstance(tools, Items):
        return CLEAN
    own = (item for item in tools.items if not has(taints_of(item.value), *PER_REQUEST))
    return union(item.forks for item in own)


def _is_choice(tools: Value, taint: Taint) -> bool:
    """Whether the list itself comes from the request, not only a word in it."""
    match tools:
        case Items():
            return taint in tools.order
        case Opaque():
            return is_tool_choice(tools.name) or taint.kind is not Kind.REQUEST
        case _:
            return False


def _fault(layout: Layout, number: int, position: int, code: str, taint: Taint) -> Fault:
    turn = layout.turns[number]
    where = "the prompt" if layout.raw else f"the {turn.role} message" if turn.role else "a message"
    before, after = _around(layout, number, position)
    return replace(_named(layout, code, taint, where), before=before, after=after)


def _around(layout: Layout, number: int, position: int) -> tuple[str | None, str | None]:
    """The known texts of the prompt before and behind a part, up to the last user turn."""
    before: list[Part] = []
    after: list[Part] = []
    for index, turn in enumerate(layout.turns):
        if turn.tail and index != number:
            break
        parts = turn.text.parts
        if index < number:
            before += parts
        elif index == number:
            before += parts[:position]
            after += parts[position + 1 :]
        else:
            after += parts
    return _known(before), _known(after)


def _known(parts: list[Part]) -> str | None:
    texts = [part.text for part in parts if part.text is not None]
    return "".join(texts) if len(texts) == len(parts) else None


def _named(layout: Layout, code: str, taint: Taint, where: str) -> Fault:
    return Fault(code=code, taint=taint, where=where, line=layout.line, label=layout.label)
