"""Each known fault of a request log is named, nothing else is, and clean logs are silent."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cache.request_log import Diagnosis, LogOptions, diagnose
from prompts import load_tokenizer
from prompts.lint.findings import Confidence
from tests.cache.request_log.logs import (
    CLEAN,
    FAULTS,
    RULES,
    Body,
    conversations,
    system,
    to_lines,
)
from tests.cache.request_log.other_logs import MORE_CLEAN, STYLES
from tests.tokenizer_folders import CHATML, write_tokenizer

_SMALL_POOL_TOKENS = 10_000
_SHORT_QUESTIONS = ["Where is my order?", "Can I return it?", "When do you open?", "Is it new?"]


def _diagnosis(bodies: list[Body], **options: int) -> Diagnosis:
    return diagnose(to_lines(bodies), replace(LogOptions(), **options))


def _codes(diagnosis: Diagnosis) -> set[str]:
    return {finding.code for finding in diagnosis.findings}


_ALL_CLEAN = CLEAN | MORE_CLEAN
# Faults that cost room, a salt or tokens sent twice are not repaired in the replay.
_NOT_REPAIRED = {"L15", "L16", "L18", "salts"}


@pytest.mark.parametrize("make", _ALL_CLEAN.values(), ids=_ALL_CLEAN)
def test_a_clean_log_has_no_findings(make: Callable[[], list[Body]]) -> None:
    """Nothing could be gained from it, so nothing is said."""
    assert _codes(_diagnosis(make())) == set()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_no_other(name: str) -> None:
    """The one cause that was put into the log is found, and replaying without it re-uses more."""
    make, codes = FAULTS[name]
    options = {"capacity_tokens": _SMALL_POOL_TOKENS} if name == "L18" else {}
    diagnosis = _diagnosis(make(), **options)
    assert _codes(diagnosis) == codes
    assert _gains(diagnosis) == (name not in _NOT_REPAIRED)


@pytest.mark.parametrize("name", STYLES)
def test_a_fault_is_named_in_whatever_style_it_is_made(name: str) -> None:
    """What counts is what differs, not how it is written."""
    make, code = STYLES[name]
    diagnosis = _diagnosis(make())
    assert _codes(diagnosis) == {code}
    assert _gains(diagnosis)


def _gains(diagnosis: Diagnosis) -> bool:
    rates = diagnosis.rates
    assert rates.repaired is not None
    assert rates.ideal is not None
    return rates.repaired > rates.ideal


@pytest.mark.parametrize("name", ["L01", "L03", "L05", "L10", "L13"])
def test_the_same_is_found_with_the_models_own_tokens(name: str, tmp_path: Path) -> None:
    """With a tokenizer the counts are exact and the causes the same."""
    with_tools = "{% if tools %}{{ tools | tojson }}{% endif %}" + CHATML
    tokenizer = load_tokenizer(write_tokenizer(tmp_path / "model", chat_template=with_tools))
    make, codes = FAULTS[name]
    diagnosis = diagnose(to_lines(make()), LogOptions(tokenizer=tokenizer))
    assert diagnosis.exact
    assert _codes(diagnosis) == codes
    assert "≈" not in "".join(finding.message for finding in diagnosis.findings)


def test_a_finding_says_where_the_prefix_breaks_and_what_that_costs() -> None:
    """The place is a line of the log; the cost is in tokens after page rounding."""
    (finding,) = _diagnosis(FAULTS["L01"][0]()).findings
    assert finding.confidence is Confidence.CONFIRMED
    assert finding.place.line == 2
    assert finding.cost is not None
    assert finding.cost.token is not None
    assert finding.cost.of is not None
    assert finding.cost.token < 20 < finding.cost.of
    assert finding.cost.page_tokens == finding.cost.of // 64 * 64
    assert f"at token ≈{finding.cost.token} of ≈{finding.cost.of:,}; ≈" in finding.message
    assert "10:00:41" in finding.message
    assert "10:01:41" in finding.message


def test_invisible_differences_are_shown_as_escapes() -> None:
    """Two texts that look the same are told apart in the message."""
    for name, escape in (("L07", "\\r\\n"), ("L08", "u0308"), ("L19", "\\ufeff")):
        (finding,) = _diagnosis(FAULTS[name][0]()).findings
        assert escape in finding.message, name


def test_two_faults_are_both_named() -> None:
    """Each costs something once the other is fixed."""
    bodies = FAULTS["L01"][0]()
    shuffled = FAULTS["L03"][0]()
    both = [body | {"tools": other["tools"]} for body, other in zip(bodies, shuffled, strict=True)]
    assert _codes(_diagnosis(both)) == {"FW102", "FW401"}


def test_callers_with_and_without_tools_that_share_their_rules_are_told_apart() -> None:
    """That some requests have no tools is no change of tools."""
    without = FAULTS["L01"][0]()
    with_tools = FAULTS["L03"][0]()
    mixed = [body for pair in zip(without, with_tools, strict=True) for body in pair]
    assert _codes(_diagnosis(mixed)) == {"FW102", "FW401"}


def test_a_rewritten_history_is_named_beside_a_clock() -> None:
    """Though each turn's prompt is new from its first line on."""
    bodies = [
        {"messages": [system(f"Now 2026-01-01 10:{i % 60:02d}\n{RULES}"), *messages[1:][-6:]]}
        for i, (_, messages) in enumerate(conversations(4, 9))
    ]
    assert _codes(_diagnosis(bodies)) == {"FW102", "FW602"}


def test_a_small_pool_is_seen_in_what_the_engine_reported() -> None:
    """Without a given capacity, far re-use that missed and near re-use that did not tell it."""
    bodies = FAULTS["L18"][0]()
    bodies = [body for body in bodies for _ in range(2)]
    lines = [
        {"request": body, "response": {"usage": _usage(1_500, 1_408 if i % 2 else 0)}}
        for i, body in enumerate(bodies)
    ]
    (finding,) = _diagnosis(lines).findings
    assert finding.code == "FW702"
    assert finding.confidence is Confidence.SUSPECTED


def test_a_cache_that_reports_nothing_at_all_is_not_taken_for_a_small_one() -> None:
    """Zero even for the prompt that was sent just before has another reason."""
    lines = [
        {"request": body, "response": {"usage": _usage(1_500, 0)}}
        for body in CLEAN["clean_single"]()
    ]
    assert _codes(_diagnosis(lines)) == set()


def _usage(prompt: int, cached: int) -> Body:
    return {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": cached}}


def test_a_salt_for_each_tenant_is_a_note_and_one_for_each_request_a_warning() -> None:
    """Isolation on purpose has a price but is no fault."""
    bodies = CLEAN["clean_single"]()
    tenants = [body | {"cache_salt": f"tenant-{i % 4}"} for i, body in enumerate(bodies)]
    (note,) = _diagnosis(tenants).findings
    (warning,) = _diagnosis(FAULTS["salts"][0]()).findings
    assert (note.code, note.severity.value) == ("FW701", "note")
    assert (warning.code, warning.severity.value) == ("FW701", "warning")


def test_what_changes_in_a_users_message_is_not_to_be_moved_there() -> None:
    """It is there already; only its place in it can be better."""
    for name, prefix in (("clock", "Now: 2026-11-03T09:{0:02}:07"), ("id", "Run {1:032x}")):
        text = "Answer the customers of the harbour office in plain words. " * 40
        bodies: list[Body] = [
            {
                "messages": [
                    {"role": "user", "content": f"{prefix.format(i, 7**40 * (i + 1))}\n{text}"}
                ]
            }
            for i in range(20)
        ]
        (finding,) = _diagnosis(bodies).findings
        assert finding.code in ("FW102", "FW103"), name
        assert "put it behind the text that stays the same" in finding.message
        assert "last user turn" not in finding.message


def test_rewritten_arguments_are_shown_and_join_no_other_conversation() -> None:
    """Results that look alike in all conversations are no sign of a shared history."""
    bodies: list[Body] = []
    for number in range(8):
        messages = [system(RULES)]
        for turn in range(3):
            order = f"{31 * number + turn}"
            messages += [{"role": "user", "content": f"Where is my order? Order {order}."}]
            call = {"id": f"c_{number}_{turn}", "type": "function"}
            bodies.append({"messages": list(messages)})
            for spelled in (
                f'{{"id": "{order}", "why": "asked"}}',
                f'{{"id":"{order}","why":"asked"}}',
            ):
                function = {"name": "track", "arguments": spelled}
                asked = {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{**call, "function": function}],
                }
                told = (
                    f'{{"status": "shipped", "at": "2026-11-0{turn + 1}T10:00:00", "n": {number}}}'
                )
                result = {"role": "tool", "tool_call_id": call["id"], "content": told}
                if '": ' in spelled:
                    bodies.append({"messages": [*messages, asked, result]})
            answer = {"role": "assistant", "content": f"Your order {order} has been shipped."}
            messages += [asked, result, answer]
    (finding,) = _diagnosis(bodies, page_size=16).findings
    assert finding.code == "FW404"
    assert 'track({"id": "0"' in finding.message
    assert " 0 of " not in finding.message


@pytest.mark.parametrize("opening", ["Classify as spam or ham: ", "Sort the text.\n\nText: "])
@pytest.mark.parametrize("key", ["prompt", "messages"])
def test_one_short_prompt_for_all_is_below_a_page(opening: str, key: str) -> None:
    """A template that is no message of its own is still one."""
    short = [f"{opening}{words} {i}" for i, words in enumerate(_SHORT_QUESTIONS * 5)]
    bodies: list[Body] = [
        {key: text if key == "prompt" else [{"role": "user", "content": text}]} for text in short
    ]
    assert _codes(_diagnosis(bodies)) == {"FW302"}


def test_short_questions_of_no_template_share_nothing() -> None:
    """Nor do those that happen to start with the same word."""
    for opening in ("", "Please, "):
        short = [f"{opening}{words} {i}" for i, words in enumerate(_SHORT_QUESTIONS * 5)]
        assert _codes(_diagnosis([{"prompt": text} for text in short])) == set()
