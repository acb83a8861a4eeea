"""Moving a template's segments: the fault is gone, and no byte of a segment has changed."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prompts.lint.findings import Finding, FixSafety, apply_fixes
from prompts.lint.fixing import fix_file
from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.source_file import SourceFile
from prompts.segments import Volatility
from prompts.template import Segment, Template
from prompts.template_file import parse_template

PATH = Path("sample.yaml")
ORDER = ("FW101", "FW102", "FW103", "FW104", "FW105", "FW106", "FW501", "FW603")
LINTER = Linter(LintOptions(select=ORDER))
RULES = "You answer from the handbook. Name the page. Be brief and polite, always."
HEAD = """name: sample
version: 1
variables:
  region: {type: text, volatility: tenant}
  today: {type: date, volatility: session}
  pages: {type: documents, volatility: collection}
  question: {type: text, volatility: turn}
  past: {type: messages, volatility: session}
segments:
"""
TEXTS = {
    Volatility.STATIC: RULES,
    Volatility.TENANT: "You serve {{ region }}.",
    Volatility.COLLECTION: "{% for page in pages %}{{ page.text }}{% endfor %}",
    Volatility.SESSION: "Today is {{ today }}.",
    Volatility.TURN: "Asked: {{ question }}",
}


def lint(data: bytes) -> tuple[Finding, ...]:
    return LINTER.lint_file(SourceFile(PATH, data))


def parse(data: bytes) -> Template:
    return parse_template(PATH, data, checked=False)


def movable(data: bytes) -> list[Finding]:
    return [found for found in lint(data) if found.fix is not None]


def fixed(data: bytes) -> bytes:
    return fix_file(SourceFile(PATH, data), LINTER.lint_file, unsafe=True).source.data


def item(number: int, role: str, level: Volatility, form: str, ending: str) -> str:
    """A segment as YAML, in one of the forms that people write."""
    text, head = TEXTS[level], f"role: {role}, volatility: {level.label}"
    block = f"  - id: s{number}\n    role: {role}\n    volatility: {level.label}\n    text: "
    match form:
        case "flow":
            return f'  - {{id: s{number}, {head}, text: "{text}{ending}"}} # kept\n'
        case "next line":
            return f"  -\n    id: s{number}\n    role: {role}\n    text: '{text}'\n" + (
                f"    volatility: {level.label}\n    # deeper, and so its own\n"
            )
        case "quoted":
            return f'{block}"{text}{ending}"  # kept\n'
        case "folded":
            return f"{block}>-\n      {text}\n      {text}\n"
        case _:
            return f"{block}{form}\n      {text}\n\n      {text}\n"


FORMS = ("flow", "next line", "quoted", "folded", "|", "|-", "|+", "|2+")
items = st.tuples(
    st.sampled_from((*("system",) * 6, "user", "assistant", "past")),
    st.sampled_from(tuple(Volatility)),
    st.sampled_from(FORMS),
    st.sampled_from(("", "\\n\\n", " ")),
    st.sampled_from(("", "\n", "  # about the next\n", "\n  # alone\n\n", "\n\n  # next\n")),
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    text = HEAD
    for number, (role, level, form, ending, gap) in enumerate(
        draw(st.lists(items, min_size=2, max_size=6))
    ):
        if role == "past":
            text += f"{gap}  - {{id: s{number}, volatility: session, messages: past}}\n"
        else:
            text += gap + item(number, role, level, form, ending)
    text += draw(st.sampled_from(("", "# the end\n", "\n\n")))
    if draw(st.booleans()):
        text = text.replace("\n  ", "\n")  # a list that isn't indented
        text = text.replace("\nregion:", "\n  region:").replace("\ntoday:", "\n  today:")
        text = text.replace("\npages:", "\n  pages:").replace("\nquestion:", "\n  question:")
        text = text.replace("\npast:", "\n  past:")
    if draw(st.booleans()):
        text = text.rstrip("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return text.encode()


def by_id(template: Template) -> dict[str, Segment]:
    return {segment.id: segment for segment in template.segments}


def roles(template: Template) -> list[str | None]:
    return [segment.role for segment in template.segments]


def lines(data: bytes) -> Counter[bytes]:
    return Counter(data.splitlines())


def identity(found: Finding, data: bytes) -> tuple[str, str | None, bytes]:
    segment = found.cost.segment if found.cost else None
    return found.code, segment, data[found.place.start : found.place.stop]


TWO_IN_A_FOLDED_TEXT = f"""{HEAD}  - id: s0
    role: system
    volatility: tenant
    text: >-
      You serve {{{{ region }}}}.
      You serve {{{{ region }}}}.
  - {{id: s1, role: system, volatility: static, text: "{RULES}"}}
  - {{id: s2, role: system, volatility: tenant, text: "{"You serve {{ region }}. " * 5}"}}
""".encode()


@example(data=TWO_IN_A_FOLDED_TEXT)
@given(data=files())
@settings(max_examples=60)
def test_a_move_removes_its_finding_and_changes_nothing_but_the_order(data: bytes) -> None:
    before = parse(data)
    for found in movable(data):
        assert found.fix is not None
        assert found.fix.safety is FixSafety.UNSAFE
        moved = apply_fixes(data, [found.fix])
        after = parse(moved)
        assert by_id(after) == by_id(before)
        assert roles(after) == roles(before)
        assert lines(moved) == lines(data)
        assert moved.count(b"\r\n") == data.count(b"\r\n")
        assert moved.endswith(b"\n") == data.endswith(b"\n")
        # Places in a folded text are that of the whole text: findings there are counted.
        left = Counter(identity(each, moved) for each in lint(moved))
        had = Counter(identity(each, data) for each in lint(data))
        assert left <= had
        assert left[identity(found, data)] < had[identity(found, data)]


@given(data=files())
@settings(max_examples=60)
def test_moving_until_nothing_is_left_to_move_is_moving_once(data: bytes) -> None:
    once = fixed(data)
    assert not movable(once)
    assert fixed(once) == once
    assert by_id(parse(once)) == by_id(parse(data))


@pytest.mark.parametrize("level", tuple(Volatility)[1:])
def test_a_volatile_segment_before_rules_of_its_message_is_moved_with_its_comments(
    level: Volatility,
) -> None:
    first = "  # about it\n" + item(0, "system", level, "quoted", "")
    rules = item(1, "system", Volatility.STATIC, "flow", "")
    user = item(2, "user", Volatility.TURN, "flow", "")
    data = f"{HEAD}{first}\n{rules}\n{user}".encode()
    (found,) = lint(data)
    assert found.fix is not None
    assert fixed(data).decode() == f"{HEAD}{rules}\n{first}\n{user}"


def test_segments_of_a_flow_list_change_places() -> None:
    data = HEAD.replace("segments:\n", "") + (
        'segments: [{id: a, role: system, volatility: tenant, text: "For {{ region }}. "}, '
        f'  {{id: b, role: system, volatility: static, text: "{RULES} "}}] # end'
    )
    moved = fixed(data.encode()).decode()
    assert moved.endswith(
        f'segments: [{{id: b, role: system, volatility: static, text: "{RULES} "}},   '
        '{id: a, role: system, volatility: tenant, text: "For {{ region }}. "}] # end'
    )


SYSTEM = "role: system, volatility: static"
NO_MOVES = {
    "the rules are of another role": f"""
  - {{id: a, role: system, volatility: turn, text: "{{{{ question }}}}"}}
  - {{id: b, role: user, volatility: static, text: "{RULES}"}}
  - {{id: c, role: assistant, volatility: static, text: "{RULES}"}}
""",
    "a turn stands between": f"""
  - {{id: a, role: user, volatility: turn, text: "{{{{ question }}}}"}}
  - {{id: b, role: assistant, volatility: static, text: "Yes."}}
  - {{id: c, role: user, volatility: static, text: "{RULES * 6}"}}
""",
    "they are in one segment": f"""
  - {{id: a, role: system, volatility: turn, text: "{{{{ question }}}} {RULES}"}}
""",
    "an anchor would stand behind its alias": f"""
  - {{id: a, role: system, volatility: turn, text: &q "Asked: {{{{ question }}}}"}}
  - {{id: b, {SYSTEM}, text: "{RULES}"}}
  - {{id: c, role: system, volatility: static, text: *q}}
  - {{id: d, role: system, volatility: static, text: "{RULES}"}}
""",
    "the last line's end would be text": f"""
  - {{id: a, role: system, volatility: turn, text: "{{{{ question }}}}"}}
  - id: b
    role: system
    volatility: static
    text: |
      {RULES}""",
}


@pytest.mark.parametrize("why", NO_MOVES)
def test_nothing_is_moved_where(why: str) -> None:
    data = (HEAD + NO_MOVES[why].lstrip("\n")).encode()
    assert lint(data)
    assert not movable(data)
    assert fixed(data) == data


def test_the_declaration_is_named_as_the_evidence_and_makes_it_confirmed() -> None:
    data = HEAD + item(0, "system", Volatility.SESSION, "flow", "")
    data += item(1, "system", Volatility.STATIC, "flow", "")
    (found,) = lint(data.encode())
    assert (found.code, found.confidence.value) == ("FW102", "confirmed")
    assert found.message.startswith("{{ today }} (declared session) puts the time before text")
