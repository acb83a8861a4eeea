"""`assert_prefix_stable` finds what changes, says where and why, and leaves the rest alone."""

import datetime
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword_pytest import (
    Clock,
    NothingToCompareError,
    PrefixUnstableError,
    RenderError,
    Until,
    assert_prefix_stable,
)
from foreword_pytest.causes import Cause
from tests.deploy.pytest_plugin import prompts_under_test as made


def failure(prompts: Any, **options: Any) -> PrefixUnstableError:
    with pytest.raises(PrefixUnstableError) as raised:
        assert_prefix_stable(prompts, **options)
    return raised.value


@pytest.mark.parametrize("render", made.STABLE)
def test_a_stable_prompt_passes(render: Callable[[], object]) -> None:
    assert_prefix_stable(render, processes=2)


@pytest.mark.parametrize(
    ("render", "cause"),
    [
        (made.date_at_the_top, Cause.CLOCK),
        (made.time_at_the_top, Cause.CLOCK),
        (made.epoch_at_the_top, Cause.CLOCK),
        (made.local_hour, Cause.CLOCK),
        (made.request_id, Cause.UUID),
        (made.short_id, Cause.RANDOM_ID),
        (made.set_order, Cause.ORDER),
        (made.set_of_lines, Cause.ORDER),
        (made.counter, Cause.NUMBER),
        (made.address, Cause.ADDRESS),
        (made.shuffled_examples, Cause.ORDER),
        (made.tools_in_any_order, Cause.TOOL_ORDER),
        (made.keys_in_any_order, Cause.KEY_ORDER),
    ],
)
def test_an_unstable_callable_is_found_and_its_cause_named(
    render: Callable[[], object], cause: Cause
) -> None:
    found = failure(render, processes=2)
    assert found.cause is cause, str(found)
    assert cause.value in str(found)


@pytest.mark.parametrize("render", [made.listing, made.globbed])
def test_an_unsorted_listing_is_found(render: Callable[[Path], object], tmp_path: Path) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).touch()
    assert failure(partial(render, tmp_path), processes=2).cause is Cause.ORDER


def test_a_date_may_be_allowed_but_not_the_time() -> None:
    assert_prefix_stable(made.date_at_the_top, clock=Clock.HOURS, processes=2)
    assert failure(made.time_at_the_top, clock=Clock.HOURS, processes=2).cause is Cause.CLOCK


def test_the_message_shows_place_both_texts_cause_and_remedy() -> None:
    first, second = (made.request(f"Rules.\nToday: {day}\u00a0May\n") for day in (1, 2))
    assert str(failure([first, second])).splitlines() == [
        "the prefix is not stable: prompt 1 and prompt 2 part in messages[0] (system), line 2, "
        "column 8, after 14 of 20 characters that should be shared",
        "  prompt 1  Rules.⏎Today: 1\\u00a0May⏎",
        "  prompt 2  Rules.⏎Today: 2\\u00a0May⏎",
        "                          ^",
        "  likely cause: a clock: a date or a time",
        "  what to do: put it after everything that is shared: into the last user turn",
    ]


def test_a_failure_in_a_fresh_process_names_what_was_different() -> None:
    found = failure(made.date_at_the_top)
    assert (found.first, found.second) == ("fresh process 1", "fresh process 2")
    assert "fresh process 2 (PYTHONHASHSEED=1, TZ=UTC-14, clock moved" in str(found)


def test_a_closure_is_called_in_this_process_only() -> None:
    counted = []

    def render() -> dict[str, Any]:
        counted.append(os.getpid())
        return made.stable()

    assert_prefix_stable(render, runs=5)
    assert counted == [os.getpid()] * 5


def test_insisting_on_fresh_processes_refuses_what_cannot_travel() -> None:
    with pytest.raises(NothingToCompareError, match="function of a module"):
        assert_prefix_stable(lambda: made.stable(), processes=2)
    with pytest.raises(NothingToCompareError, match="function of a module"):
        assert_prefix_stable(lambda: made.stable(), runs=1)


def test_a_callable_that_fails_elsewhere_is_told_with_its_traceback() -> None:
    render = partial(made.failing_elsewhere, os.getpid())
    with pytest.raises(RenderError) as raised:
        assert_prefix_stable(render, processes=1)
    assert "LookupError: the database is not open here" in str(raised.value)
    assert "processes=0" in str(raised.value)
    assert_prefix_stable(render, processes=0)


def test_a_library_that_knows_only_the_real_datetime_gets_it() -> None:
    assert_prefix_stable(made.refuses_another_datetime, processes=1)


def test_a_process_that_hangs_is_ended() -> None:
    with pytest.raises(RenderError, match=r"longer than 0\.01 s"):
        assert_prefix_stable(made.stable, timeout_s=0.01)


def test_what_shows_nothing_is_refused() -> None:
    only_user = [{"role": "user", "content": "Hello"}]
    for prompts in ([only_user, only_user], [made.stable()], []):
        with pytest.raises(NothingToCompareError):
            assert_prefix_stable(prompts)
    assert_prefix_stable([only_user, only_user], until=Until.END)
    with pytest.raises(TypeError, match="int is not a prompt"):
        assert_prefix_stable([1, 2])
    with pytest.raises(TypeError, match="no prompt in it"):
        assert_prefix_stable([{"model": "x"}, {"model": "x"}])


def test_one_prompt_is_refused() -> None:
    for prompt in ("text", b"text", made.stable()):
        with pytest.raises(TypeError, match="a list of prompts, or a callable"):
            assert_prefix_stable(prompt)


async def asynchronous() -> str:
    return made.RULES


def test_an_async_callable_is_refused_with_the_remedy() -> None:
    with pytest.raises(TypeError, match=r"asyncio\.run"):
        assert_prefix_stable(asynchronous)


messages = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.text(max_size=12),
)


@settings(deadline=None)
@given(st.lists(messages, max_size=5), messages, st.text(), st.text())
def test_only_what_stands_before_the_last_user_turn_counts(
    before: list[dict[str, str]], other: dict[str, str], first: str, second: str
) -> None:
    history = [{"role": "system", "content": "rules"}, *before]
    last, another = ({"role": "user", "content": text} for text in (first, second))
    assert_prefix_stable([[*history, last], [*history, another]])
    assert_prefix_stable([[*history, last], [*history, last, other]], until=Until.SYSTEM)
    changed = [{"role": "system", "content": "rules."}, *before]
    found = failure([[*history, last], [*changed, another]])
    assert found.divergence.shared == 5


@settings(deadline=None)
@given(st.lists(messages, min_size=2, max_size=6), st.lists(messages, min_size=2, max_size=6))
def test_any_two_prompts_pass_exactly_if_they_are_equal(
    one: list[dict[str, str]], other: list[dict[str, str]]
) -> None:
    def parts(prompt: list[dict[str, str]]) -> list[tuple[str, str]]:
        return [(message["role"], message["content"]) for message in prompt]

    if not any(message["content"] for message in (*one, *other)):
        return
    if parts(one) == parts(other):
        assert_prefix_stable([one, other], until=Until.END)
    else:
        assert failure([one, other], until=Until.END).cause in Cause


def conversation(*contents: str, system: str = made.RULES) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    turns = [{"role": roles[n % 2], "content": text} for n, text in enumerate(contents)]
    return [{"role": "system", "content": system}, *turns]


def test_the_turns_of_a_conversation_may_grow() -> None:
    turns = [conversation(*"abcdefg"[:length]) for length in (1, 3, 5, 7)]
    assert_prefix_stable(turns)
    assert_prefix_stable(turns[::-1])


def test_conversations_that_share_only_the_rules_pass_up_to_there() -> None:
    two = [conversation("a", "b", "c"), conversation("x", "y", "z")]
    assert_prefix_stable(two, until=Until.SYSTEM)
    assert failure(two).divergence.where == "messages[1] (user)"


def test_a_history_cut_from_the_front_is_named() -> None:
    turns = [conversation("a", "b", "c", "d", "e"), conversation("c", "d", "e", "f", "g")]
    assert failure(turns).cause is Cause.TRUNCATED


def test_a_rewritten_turn_is_found_where_it_is() -> None:
    turns = [conversation("a", "b", "c"), conversation("a", "B", "c", "d", "e")]
    assert failure(turns).divergence.where == "messages[2] (assistant)"


def tools(*names: str, **parameters: Any) -> dict[str, Any]:
    listed = [{"function": {"name": name, "parameters": parameters}} for name in names]
    return made.request(made.RULES, tools=listed)


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        (tools("a", "b", "c"), tools("a", "c", "b"), Cause.TOOL_ORDER),
        (tools("a", "b", "c"), tools("a", "b"), Cause.TOOL_SET),
        (tools("a", x=1, y=2), tools("a", y=2, x=1), Cause.KEY_ORDER),
    ],
)
def test_tools_come_before_the_messages(
    first: dict[str, Any], second: dict[str, Any], cause: Cause
) -> None:
    found = failure([first, second])
    assert found.cause is cause
    assert found.divergence.where.startswith(("tools[", "messages[0]"))


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        ("one\ntwo", "one\r\ntwo", Cause.NEWLINES),
        ("café au lait", "cafe\u0301 au lait", Cause.UNICODE),
        ("a\u200bb", "ab", Cause.INVISIBLE),
        ("\ufeffab", "ab", Cause.INVISIBLE),
        ("10 km", "10\u00a0km", Cause.INVISIBLE),
        ("a  b", "a b\n", Cause.WHITESPACE),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', Cause.KEY_ORDER),
        ('see {"a": 1, "b": 2}!', 'see {"b": 2, "a": 1}!', Cause.KEY_ORDER),
        ("costs 1,234.5 in all", "costs 1.234,5 in all", Cause.NUMBER_FORMAT),
        ("in /tmp/a1/x.md here", "in /tmp/b2/x.md here", Cause.PATH),
        ("at 2026-01-01T10:00:00Z.", "at 2026-01-01T10:00:07Z.", Cause.CLOCK),
        ("It is 9:05 AM", "It is 9:15 AM", Cause.CLOCK),
        ("Sunday's menu", "Monday's menu", Cause.CLOCK),
        ("since 3 May 2026.", "since 14 June 2026.", Cause.CLOCK),
        ("14 documents", "15 documents", Cause.NUMBER),
        ("Hello Ada, welcome", "Hello Grace, welcome", Cause.TEXT),
        ("Be brief. ", "Be brief. You may joke.", Cause.SOMETIMES),
        ("red, green, blue", "green, blue, red", Cause.ORDER),
        ("0x7f3a at 0x7f0011223344>", "0x7f3a at 0x7f0011223999>", Cause.ADDRESS),
    ],
)
def test_the_cause_is_read_off_two_texts(first: str, second: str, cause: Cause) -> None:
    assert failure([first, second]).cause is cause


def test_a_marker_ends_what_is_shared() -> None:
    two = ["rules. Question: a", "rules. Question: b"]
    assert_prefix_stable(two, until="Question:")
    with pytest.raises(NothingToCompareError, match="'Answer:' is not in prompt 1"):
        assert_prefix_stable(two, until="Answer:")


def test_a_least_length_may_be_asked_for_instead() -> None:
    two = ["x" * 100 + "a", "x" * 100 + "b"]
    assert_prefix_stable(two, min_shared=100)
    assert "after 100 of 101 characters" in str(failure(two, min_shared=101))


def test_token_ids_are_compared_as_ids() -> None:
    ids = [5, 0xD7FF, 0xD800, 0xDFFF, 129_000]
    assert_prefix_stable([ids, [*ids, 9]], min_shared=5)
    found = failure([ids, [*ids[:3], 77, 78]])
    assert "after 3 of 5 tokens" in str(found)
    assert "5 55295 55296 57343 129000" in str(found)
    assert failure(made.token_ids, processes=0).divergence.shared == 3


def test_with_an_encoder_the_failure_counts_tokens() -> None:
    def encode(text: str) -> list[int]:
        return [len(word) for word in text.split(" ")]

    two = [made.request(f"You are a helpful bot. Now it is 10:0{n}. Be kind.") for n in (1, 22)]
    assert "after about 8 of 11 tokens" in str(failure(two, encode=encode))
    assert_prefix_stable(two, encode=encode, min_shared=8)
    assert "after 8 of 9 tokens" in str(failure(two, encode=encode, min_shared=9))


def test_all_shapes_of_prompts_are_read() -> None:
    @dataclass(frozen=True)
    class Message:
        role: str
        content: str

    @dataclass(frozen=True)
    class Prompt:
        messages: tuple[Message, ...]

    shapes: list[Callable[[str], object]] = [
        lambda rules: {"instructions": rules, "input": "What?"},
        lambda rules: {"input": [{"role": "developer", "content": rules}, {"role": "user"}]},
        lambda rules: {"system": rules, "messages": [{"role": "user", "content": "Hi"}]},
        lambda rules: {"system": [{"type": "text", "text": rules}], "messages": []},
        lambda rules: {"prompt": rules},
        lambda rules: {"text": rules},
        lambda rules: rules.encode(),
        lambda rules: Prompt((Message("system", rules), Message("user", "Hi"))),
        lambda rules: made.request(rules, extra={"when": datetime.date(2026, 1, 1)}),
    ]
    for shape in shapes:
        assert_prefix_stable([shape("rules A"), shape("rules A")])
        assert failure([shape("rules A"), shape("rules B")]).divergence.offset == 6


def test_tool_calls_and_results_are_part_of_the_prefix() -> None:
    def turns(arguments: str) -> list[dict[str, Any]]:
        call = {"id": "c1", "function": {"name": "search", "arguments": arguments}}
        return [
            *conversation("a")[:2],
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            {"role": "user", "content": "And?"},
        ]

    assert_prefix_stable([turns('{"q": 1}'), turns('{"q": 1}')])
    found = failure([turns('{"q": 1}'), turns('{"q":1}')])
    assert found.divergence.where == "messages[2] (assistant) fields"
    assert found.cause is Cause.WHITESPACE
