"""Tool lists that change: whatever becomes of them, prompts only grow."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prompts import (
    Message,
    Tool,
    canonical_tools,
    load_templates,
    load_tokenizer,
    shipped_templates,
)
from prompts.chat_template import ChatTemplate
from prompts.tool_calls import CallShape
from prompts.tool_changes import Announcement, ToolHistory, spliced
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

WORDS = load_templates(shipped_templates()).find("tools")

specs = st.fixed_dictionaries(
    {"name": st.sampled_from("abcd"), "description": st.sampled_from("xy")}
)
tool_lists = st.lists(specs, max_size=4, unique_by=lambda spec: spec["name"]).map(
    lambda found: canonical_tools([{"type": "function", "function": spec} for spec in found])
)


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatTemplate:
    folder = write_tokenizer(tmp_path_factory.mktemp("m") / "model", chat_template=CHATML_TOOLS)
    return load_tokenizer(folder).chat


def prompt_of(chat: ChatTemplate, said: Sequence[Message], history: ToolHistory) -> str:
    made = [
        said[each] if isinstance(each, int) else Message(role=each[0], content=each[1])
        for each in spliced([(m.role, m.content) for m in said], history.announcements)
    ]
    return chat.render(made, history.base)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(lists=st.lists(tool_lists, min_size=1, max_size=6), insides=st.lists(st.booleans()))
def test_prompts_only_grow_whatever_lists_come(
    lists: list[tuple[Tool, ...]], insides: list[bool], chat: ChatTemplate
) -> None:
    history = ToolHistory.begin(lists[0])
    said = [Message(role="user", content="Question 0")]
    before = prompt_of(chat, said, history)
    for number, tools in enumerate(lists[1:], 1):
        said.append(Message(role="assistant", content=f"Answer {number}"))
        place = len(said)
        said.append(Message(role="user", content=f"Question {number}"))
        if (change := history.change_to(tools)) is not None:
            inside = number < len(insides) and insides[number]
            told = Announcement(place=place, text=change.words(WORDS), inside=inside)
            history = history.changed(tools, told)
        else:
            assert tools == history.now
        prompt = prompt_of(chat, said, history)
        assert prompt.startswith(before)
        before = prompt
        # The model has read of every tool that it may call, as it is now.
        shown = history.shown
        assert all(shown[tool.name] == tool for tool in tools)
        assert all(tool.json in prompt for tool in history.told)
        callable_now = {tool.name for tool in tools}
        assert set(history.out_of_reach) == shown.keys() - callable_now
        stored = json.loads(json.dumps(history.as_json()))
        assert ToolHistory.of_json(stored) == history


@given(before=tool_lists, after=tool_lists)
def test_a_change_names_each_tool_once_and_none_that_stays(
    before: tuple[Tool, ...], after: tuple[Tool, ...]
) -> None:
    change = ToolHistory.begin(before).change_to(after)
    if change is None:
        assert before == after
        return
    named = [tool.name for tool in (*change.added, *change.altered)]
    named += [*change.returned, *change.withdrawn]
    assert len(named) == len(set(named))
    stays = {tool.name for tool in before} & {t.name for t in after if t in before}
    assert not stays & set(named)
    words = change.words(WORDS)
    assert all(tool.json in words for tool in (*change.added, *change.altered))
    assert change.only_withdraws is (not change.added and not change.altered)


def test_a_tool_that_comes_back_is_named_and_not_shown_again() -> None:
    one = canonical_tools([{"type": "function", "function": {"name": "one", "description": "d"}}])
    gone = ToolHistory.begin(one).changed((), Announcement(place=2, text="x"))
    back = gone.change_to(one)
    assert back is not None
    assert (back.returned, back.added) == (("one",), ())
    assert "description" not in back.words(WORDS)


def test_what_is_told_inside_a_message_stands_in_a_users_alone() -> None:
    """Items of a stored conversation can be deleted, which moves all that comes after."""
    said = [("user", "One"), ("assistant", "Two"), ("user", "Three")]
    told = [Announcement(place=1, text="New.", inside=True)]
    assert spliced(said, told) == [0, ("system", "New."), 1, 2]
    told = [Announcement(place=2, text="New.", inside=True), Announcement(place=9, text="Late.")]
    assert spliced(said, told) == [0, 1, ("user", "New.\n\nThree"), ("system", "Late.")]


def test_how_calls_are_written_is_told_where_the_model_has_seen_no_tool() -> None:
    shape = CallShape(before="<call>", between="(", after=")", trigger="<call>", token=None)
    one = canonical_tools([{"type": "function", "function": {"name": "one"}}])
    change = ToolHistory.begin(()).change_to(one)
    assert change is not None
    assert "by writing <call>NAME({ARGUMENTS}):" in change.words(WORDS, shape)
