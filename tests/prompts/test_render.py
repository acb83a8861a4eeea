"""Rendering is a function of its inputs, and of nothing else."""

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts import (
    Message,
    PromptDocument,
    PromptError,
    Template,
    Volatility,
    load_templates,
    parse_template,
    render,
    shipped_templates,
)
from prompts.errors import MissingVariableError, UnknownVariableError, UnstableValueError
from prompts.values import Value

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


docqa = load_templates(shipped_templates()).find("docqa@2")
chat = load_templates(shipped_templates()).find("chat@1")


def template(*segments: str, variables: str = "{}") -> Template:
    lines = "\n".join(f"  - {{{segment}}}" for segment in segments)
    source = f"name: t\nversion: 1\nvariables: {variables}\nsegments:\n{lines}\n"
    return parse_template(Path("t.yaml"), source.encode())


def test_neighbouring_segments_of_one_role_are_one_message() -> None:
    prompt = render(
        docqa,
        {
            "documents": [PromptDocument(name="a.md", text="Cats purr.")],
            "question": "Do cats purr?",
        },
    )
    assert [m.role for m in prompt.messages] == ["system", "user"]
    assert 'name="a.md"' in prompt.messages[0].content
    assert prompt.messages[1].role == "user"
    assert prompt.messages[1].content.startswith("Do cats purr?\n")


def test_an_expanded_conversation_keeps_its_own_messages() -> None:
    conversation = (
        Message(role="system", content="Be brief."),
        Message(role="user", content="one"),
        Message(role="user", content="two"),
        Message(role="assistant", content=""),
    )
    prompt = render(chat, {"conversation": conversation})
    assert prompt.messages[1:] == conversation


def test_a_segment_that_renders_to_nothing_is_left_out() -> None:
    prompt = render(chat, {"conversation": [Message(role="user", content="hi")]})
    assert [s.id for s in prompt.segments] == ["scaffold", "conversation"]


@given(st.lists(st.tuples(texts, texts), max_size=50))
def test_what_was_printed_before_is_printed_again_for_equal_values_only(
    pairs: list[tuple[str, str]],
) -> None:
    variables = "{a: {type: text, volatility: turn}, b: {type: text, volatility: turn}}"
    one = 'id: s, role: user, volatility: turn, text: "{{ a }}|{{ b }}"'
    used = template(one, variables=variables)
    for a, b in [*pairs, *pairs]:
        values: dict[str, Value] = {"a": a, "b": b}
        assert render(used, values) == render(template(one, variables=variables), values)
    (segment,) = used.segments
    assert len(segment.printed) <= 32


def test_long_texts_and_those_of_other_values_are_not_kept() -> None:
    segments = docqa.segments
    render(docqa, {"documents": [PromptDocument(name="a", text="b")], "question": "c" * 20_000})
    assert not any("c" * 100 in text for s in segments for text in s.printed.values())


@given(question=texts, other=texts, instructions=texts)
def test_what_changes_by_turn_leaves_everything_before_it_alone(
    question: str, other: str, instructions: str
) -> None:
    documents = [PromptDocument(name="a", text="b")]
    fixed = {"documents": documents, "instructions": instructions}
    one = render(docqa, fixed | {"question": question})
    two = render(docqa, fixed | {"question": other})
    assert one.fingerprint == two.fingerprint
    assert one.messages[0] == two.messages[0]


@given(text=texts)
def test_rendered_text_is_in_canonical_form(text: str) -> None:
    prompt = render(chat, {"conversation": [Message(role="user", content=text)]})
    again = render(chat, {"conversation": list(prompt.messages[1:])})
    assert again == prompt
    assert "\r" not in prompt.messages[1].content


def test_the_fingerprint_is_the_scaffolds_alone() -> None:
    one = template("id: a, role: system, volatility: static, text: x")
    two = template(
        "id: a, role: system, volatility: static, text: x",
        "id: b, role: user, volatility: turn, text: y",
    )
    other = template("id: a, role: system, volatility: static, text: z")
    assert render(one, {}).fingerprint == render(two, {}).fingerprint
    assert render(one, {}).fingerprint != render(other, {}).fingerprint


def test_values_are_checked_against_what_is_declared() -> None:
    with pytest.raises(MissingVariableError, match="'question'"):
        render(docqa, {"documents": []})
    with pytest.raises(UnknownVariableError, match="'colour'"):
        render(docqa, {"documents": [], "question": "?", "colour": "red"})
    with pytest.raises(UnstableValueError, match="must be text, not int"):
        render(docqa, {"documents": [], "question": 3})
    with pytest.raises(UnstableValueError, match="lone surrogate"):
        render(docqa, {"documents": [], "question": "\ud800"})


@pytest.mark.parametrize(
    "source",
    ["{{ x.__class__ }}", "{{ ''.__class__.__mro__ }}", "{{ x|attr('__class__') }}", "{{ x.y }}"],
)
def test_nothing_outside_can_be_reached(source: str) -> None:
    segment = f'id: a, role: user, volatility: turn, text: "{source}"'
    variables = "{x: {type: text, volatility: turn}}"
    with pytest.raises(PromptError, match=r"can't be rendered|no filter is called 'attr'"):
        render(template(segment, variables=variables), {"x": "value"})


EVERYTHING = """\
name: everything
version: 1
tools: tools
variables:
  tools: {type: tools, volatility: static}
  tenant: {type: json, volatility: tenant}
  price: {type: number, format: ",.2f", volatility: tenant}
  documents: {type: documents, volatility: collection}
  started: {type: date, format: "Weekday, D Month YYYY", volatility: session}
  history: {type: messages, volatility: session}
  count: {type: integer, volatility: turn}
  question: {type: text, volatility: turn}
segments:
  - {id: rules, role: system, volatility: static, text: "Be kind.\\n"}
  - {id: tenant, role: system, volatility: tenant, text: "{{ tenant|json }} {{ price }}"}
  - id: keys
    role: system
    volatility: tenant
    text: "{% for k, v in tenant.items() %}{{ k }}{% endfor %}"
  - id: documents
    role: system
    volatility: collection
    text: "{% for d in documents %}{{ d.name }}{{ d.text }}{% endfor %}"
  - {id: started, role: system, volatility: session, text: "Since {{ started }}."}
  - {id: history, volatility: session, messages: history}
  - {id: question, role: user, volatility: turn, text: "{{ question }} ({{ count }})"}
"""
everything = parse_template(Path("everything.yaml"), EVERYTHING.encode())


def tool(name: str, keys: list[str]) -> dict[str, object]:
    properties = {key: {"type": "string"} for key in keys}
    parameters = {"type": "object", "properties": properties, "required": keys}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


names = st.lists(st.text("abcd\u00e9", min_size=1, max_size=3), unique=True, max_size=5)


@given(keys=names, random=st.randoms(), question=texts, said=texts, number=st.floats(-1e9, 1e9))
def test_the_order_in_which_the_caller_gives_things_does_not_matter(
    keys: list[str], random: Random, question: str, said: str, number: float
) -> None:
    def values() -> dict[str, Value]:
        random.shuffle(keys)
        given: list[tuple[str, Value]] = [
            ("tools", [tool(key, random.sample(keys, len(keys))) for key in keys]),
            ("tenant", {k: dict.fromkeys(random.sample(keys, len(keys)), number) for k in keys}),
            ("price", number),
            ("documents", [PromptDocument(name="a", text=said)]),
            ("started", "2026-11-03"),
            ("history", [Message(role="user", content=said)]),
            ("count", 3),
            ("question", question),
        ]
        random.shuffle(given)
        return dict(given)

    one, two = render(everything, values()), render(everything, values())
    assert one == two
    assert one.fingerprint == two.fingerprint


@pytest.mark.parametrize("level", list(Volatility)[1:])
@given(text=texts, other=texts)
def test_what_changes_late_leaves_all_before_it_as_it_was(
    level: Volatility, text: str, other: str
) -> None:
    def values(text: str, at_least: Volatility) -> dict[str, Value]:
        fresh = {
            name: text if variable.volatility >= at_least else "fixed"
            for name, variable in everything.variables.items()
        }
        return {
            "tools": [tool("t", ["a"])],
            "tenant": {fresh["tenant"]: fresh["tenant"]},
            "price": len(fresh["price"]),
            "documents": [PromptDocument(name="d", text=fresh["documents"])],
            "started": date(2026, 1, 1 + len(fresh["started"]) % 28),
            "history": [Message(role="user", content=fresh["history"])],
            "count": len(fresh["count"]),
            "question": fresh["question"],
        }

    one, two = (render(everything, values(each, level)) for each in (text, other))
    kept = [[s for s in made.segments if s.volatility < level] for made in (one, two)]
    assert kept[0] == kept[1]
    assert one.segments[: len(kept[0])] == tuple(kept[0])
    assert (one.tools, one.fingerprint) == (two.tools, two.fingerprint)


_SCRIPT = """
import locale, sys, time
from pathlib import Path
from prompts import Message, PromptDocument, parse_template, render
from prompts import load_templates, shipped_templates
locale.setlocale(locale.LC_ALL, "")
time.tzset()
# The order of this set follows PYTHONHASHSEED.
keys = list({"b", "a", "c", "\u00e9", "e\u0301x"})
function = {"parameters": {"required": keys, "properties": {k: {"type": "string"} for k in keys}}}
values = {
    "tools": [{"function": {"name": k, **function}} for k in keys],
    "tenant": {k: {k: 0.1 for k in keys} for k in keys},
    "price": 1234567.875,
    "documents": [PromptDocument(name=n, text="I\u0307stanbul") for n in ("b", "a")],
    "started": "2026-11-03",
    "history": [Message(role="user", content="I\u0307")],
    "count": 1234567,
    "question": "why?",
}
everything = parse_template(Path("e.yaml"), sys.argv[1].encode())
docqa = load_templates(shipped_templates()).find("docqa")
for template in (everything, docqa):
    known = {name: value for name, value in values.items() if name in template.variables}
    prompt = render(template, known)
    sys.stdout.write(prompt.fingerprint + repr(prompt.tools) + repr(prompt.messages))
"""


def test_the_same_bytes_in_any_process() -> None:
    outputs = set()
    for seed, locale, zone in (
        ("0", "C", "UTC"),
        ("7", "C.UTF-8", "Asia/Tokyo"),
        ("9", "POSIX", "X"),
    ):
        env = os.environ | {
            "PYTHONHASHSEED": seed, "LC_ALL": locale, "TZ": zone, "PYTHONIOENCODING": "utf-8",
            "PYTHONUTF8": "1",
        }  # fmt: skip
        command = [sys.executable, "-c", _SCRIPT, EVERYTHING]
        done = subprocess.run(command, env=env, capture_output=True, check=True, timeout=60)
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert b"1,234,567.88" in outputs.pop()
