"""Rendering is a function of its inputs, and of nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts import (
    Message,
    PromptDocument,
    PromptError,
    Template,
    load_templates,
    parse_template,
    render,
    shipped_templates,
)
from prompts.errors import MissingVariableError, UnknownVariableError, UnstableValueError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


docqa = load_templates(shipped_templates()).find("docqa@1")
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
    with pytest.raises(PromptError, match=r"can't be rendered|No filter named 'attr'"):
        render(template(segment, variables=variables), {"x": "value"})


_SCRIPT = """
import sys
from prompts import PromptDocument, load_templates, render, shipped_templates
template = load_templates(shipped_templates()).find("docqa")
documents = [PromptDocument(name=n, text="I\\u0307stanbul") for n in ("b", "a")]
prompt = render(template, {"question": "why?", "documents": documents})
sys.stdout.write(prompt.fingerprint + repr(prompt.messages))
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
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT], env=env, capture_output=True, check=True, timeout=60
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
