"""What holds for every Python file: places, fixes, suppressions, files that can't be parsed."""

import ast
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts.lint.findings import Confidence, Finding, FixSafety, apply_fixes
from prompts.lint.options import LintOptions
from prompts.lint.python import lint_python
from prompts.lint.source_file import SourceFile
from prompts.segments import Prompt, TokenizedPrompt

_HEAD = """\
import json, os
from datetime import datetime
import openai
client = openai.OpenAI()
RULES = "You are a helpful assistant, and you follow each of these rules."
def ask(q, cfg):
"""
_SEND = """
    return client.chat.completions.create(
        model="m", messages=[{"role": "system", "content": system}, {"role": "user", "content": q}])
"""


def _lint(code: str | bytes, options: LintOptions | None = None) -> list[Finding]:
    data = code.encode() if isinstance(code, str) else code
    return lint_python(SourceFile(Path("app.py"), data), options or LintOptions())


def _asking(statement: str) -> str:
    return f"{_HEAD}    {statement}{_SEND}"


def _codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


def test_a_finding_lies_at_the_expression_and_names_the_line_that_sends_it() -> None:
    code = _asking('system = f"Now {datetime.now()}. " + RULES')
    (finding,) = _lint(code)
    place = finding.place
    assert code.encode()[place.start : place.stop] == b"datetime.now()"
    assert (place.line, place.column) == (7, 21)
    assert "client.chat.completions.create" in finding.message
    assert "line 8" in finding.message


def test_a_place_counts_bytes_behind_letters_of_two_bytes_and_crlf() -> None:
    code = _asking('system = f"Grüße, 你好 {datetime.now()}. " + RULES').replace("\n", "\r\n")
    (finding,) = _lint(code)
    assert code.encode()[finding.place.start : finding.place.stop] == b"datetime.now()"


def test_a_place_is_right_behind_a_byte_order_mark() -> None:
    code = b"\xef\xbb\xbf" + _asking('system = f"Now {datetime.now()}. " + RULES').encode()
    (finding,) = _lint(code)
    assert code[finding.place.start : finding.place.stop] == b"datetime.now()"


def test_a_place_is_right_in_another_encoding() -> None:
    code = "# coding: latin-1\n" + _asking('system = f"Grüße {datetime.now()}. " + RULES')
    data = code.encode("latin-1")
    (finding,) = _lint(data)
    assert data[finding.place.start : finding.place.stop] == b"datetime.now()"


def test_what_a_call_shows_is_confirmed_and_what_a_name_says_is_suspected() -> None:
    (shown,) = _lint(_asking('system = f"Now {datetime.now()}. " + RULES'))
    (said,) = _lint(_asking('system = f"Request {q.request_id}. " + RULES'))
    assert (shown.confidence, said.confidence) == (Confidence.CONFIRMED, Confidence.SUSPECTED)


@pytest.mark.parametrize(
    ("call", "fixed"),
    [
        ("json.dumps(cfg)", "json.dumps(cfg, sort_keys=True)"),
        ("json.dumps(cfg, indent=2)", "json.dumps(cfg, indent=2, sort_keys=True)"),
        ("json.dumps(cfg, sort_keys=False)", "json.dumps(cfg, sort_keys=True)"),
        ("json.dumps(cfg,)", "json.dumps(cfg, sort_keys=True,)"),
        ("json.dumps((cfg))", "json.dumps((cfg), sort_keys=True)"),
    ],
)
def test_the_fix_of_json_is_safe_and_changes_nothing_else(call: str, fixed: str) -> None:
    code = _asking(f"system = RULES + {call} + RULES")
    (finding,) = _lint(code)
    assert finding.fix is not None
    assert finding.fix.safety is FixSafety.SAFE
    assert apply_fixes(code.encode(), [finding.fix]).decode() == code.replace(call, fixed)
    assert _lint(apply_fixes(code.encode(), [finding.fix])) == []


@pytest.mark.parametrize("call", ["os.listdir('d')", "{c for c in cfg}"])
def test_the_fix_of_an_order_is_unsafe_and_ends_the_finding(call: str) -> None:
    code = _asking(f"system = ', '.join({call}) + RULES").encode()
    (finding,) = _lint(code)
    assert finding.fix is not None
    assert finding.fix.safety is FixSafety.UNSAFE
    fixed = apply_fixes(code, [finding.fix])
    assert f"sorted({call})".encode() in fixed
    assert _lint(fixed) == []


def test_an_order_that_a_later_line_needs_as_a_set_is_not_fixed() -> None:
    (finding,) = _lint(_asking("seen = set(cfg); seen.add(q); system = ', '.join(seen) + RULES"))
    assert finding.code == "FW209"
    assert finding.fix is None


def test_a_suppression_with_a_reason_ends_a_finding() -> None:
    line = 'system = f"Now {datetime.now()}. " + RULES'
    assert _lint(_asking(f"{line}  # foreword: ignore[FW102] a demo")) == []
    assert _lint(_asking(f"# foreword: ignore[FW102] a demo\n    {line}")) == []


def test_a_suppression_without_a_reason_or_a_finding_is_itself_one() -> None:
    line = 'system = f"Now {datetime.now()}. " + RULES'
    assert _codes(_lint(_asking(f"{line}  # foreword: ignore[FW102]"))) == ["FW904"]
    assert _codes(_lint(_asking("system = RULES  # foreword: ignore[FW102] a demo"))) == ["FW903"]


def test_a_suppression_in_a_string_is_text() -> None:
    assert _lint(_asking('system = "# foreword: ignore[FW102] x" + RULES')) == []


class _Words:
    """A tokenizer whose tokens are words."""

    def count(self, text: str) -> int:
        return len(text.split())

    def tokenize(self, prompt: Prompt) -> TokenizedPrompt:
        raise NotImplementedError


def test_the_cost_counts_the_tokens_before_and_behind_where_all_of_them_are_known() -> None:
    options = LintOptions(tokenizer=_Words(), page_size=4, chunk_size=8)
    code = _asking('system = f"one two three {datetime.now()} " + RULES')
    (finding,) = _lint(code, options)
    assert finding.cost is not None
    assert (finding.cost.token, finding.cost.of) == (3, 15)
    assert (finding.cost.page_tokens, finding.cost.chunk_tokens) == (12, 8)
    assert "token 3 of 15" in finding.message


def test_the_cost_is_unknown_behind_text_that_is() -> None:
    code = _asking('system = f"{cfg} {datetime.now()} " + RULES')
    (finding,) = _lint(code, LintOptions(tokenizer=_Words()))
    assert finding.cost is None


def test_only_selected_rules_are_reported() -> None:
    code = _asking('system = f"Now {datetime.now()} {json.dumps(cfg)}. " + RULES')
    assert _codes(_lint(code)) == ["FW102", "FW208"]
    assert _codes(_lint(code, LintOptions(select=("FW2",)))) == ["FW208"]
    assert _codes(_lint(code, LintOptions(ignore=("json-not-canonical",)))) == ["FW102"]


@pytest.mark.parametrize(
    "code",
    [
        b"print 'python 2'\n",
        b"def broken(:\n",
        b"x = 1\n\x00\n",
        b"# coding: no-such-coding\n",
        b"x = '\xff'\n",
        b"  indented = 1\n",
    ],
)
def test_a_file_that_python_cannot_parse_is_one_finding(code: bytes) -> None:
    (finding,) = _lint(code)
    assert finding.code == "FW901"
    assert 0 <= finding.place.start <= finding.place.stop <= len(code)


@pytest.mark.parametrize("code", [b"", b"\n", b"# only a comment", b"\xef\xbb\xbf", b"x = 1"])
def test_a_file_without_prompts_is_clean(code: bytes) -> None:
    assert _lint(code) == []


def test_a_deeply_nested_expression_ends_without_a_finding() -> None:
    nested = "(" * 90 + "1" + ")" * 90
    assert _lint(_asking(f"system = RULES + str({nested})")) == []
    assert _lint("prompt = " + "+".join(["'a'"] * 3_000) + "\n") == []


def test_an_expression_deeper_than_the_stack_does_not_hide_other_functions() -> None:
    deep = "+".join(["RULES"] * 900)
    code = _asking('system = f"Now {datetime.now()}. " + RULES')
    assert _codes(_lint(f"{_HEAD.replace('ask', 'other')}    system = {deep}{_SEND}{code}")) == [
        "FW102"
    ]


def test_functions_that_call_each_other_for_ever_end() -> None:
    other = f"def tell(q, cfg):\n    system = RULES + ask(q, cfg){_SEND}"
    assert _lint(f"{_HEAD}    return tell(q, cfg)\n{other}") == []


def test_a_file_of_two_thousand_lines_takes_little_time() -> None:
    block = _asking('system = RULES + "x"').partition("def ask")[2]
    code = _HEAD.partition("def ask")[0] + "".join(
        f"def ask{number}{block}" for number in range(2_000 // block.count("\n"))
    )
    started = time.thread_time()
    assert _lint(code) == []
    # Four tenths of a second; a slower machine is no fault of the linter's.
    assert time.thread_time() - started < 4.0


_SOURCES = [
    "datetime.now()", "json.dumps(cfg)", "set(cfg)", "os.listdir('.')", "q", "cfg['user']['name']",
    "RULES", "'fixed'", "cfg[-3:]", "[q, RULES]", "{'a': q}", "None", "1.5",
]  # fmt: skip
_WRAPPERS = [
    "f'{{{0}}}'", "str({0})", "', '.join({0})", "{0} + RULES", "RULES + str({0})",
    "[x for x in {0}]", "({0} if q else RULES)", "sorted({0})", "'%s' % ({0})",
    "'{{}}'.format({0})", "({0}).strip()",
    "list({0})[0]", "{{**cfg, 'k': {0}}}", "(lambda: {0})()", "({0})[1:]",
]  # fmt: skip


@given(st.randoms(use_true_random=False), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_no_expression_breaks_the_linter_and_each_place_is_an_expression(
    dice: random.Random, depth: int
) -> None:
    expression = dice.choice(_SOURCES)
    for _ in range(depth):
        expression = dice.choice(_WRAPPERS).format(expression)
    code = _asking(f"system = {expression}")
    try:
        ast.parse(code)
    except SyntaxError:
        return
    for finding in _lint(code):
        text = code.encode()[finding.place.start : finding.place.stop].decode()
        ast.parse(text.strip(), mode="eval")


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_findings_are_the_same_each_time(dice: random.Random) -> None:
    parts = dice.sample(_SOURCES, 4)
    code = _asking("system = " + " + ".join(f"str({part})" for part in parts) + " + RULES")
    assert _lint(code) == _lint(code)


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_no_bytes_break_the_linter(data: bytes) -> None:
    for finding in _lint(data):
        assert 0 <= finding.place.start <= finding.place.stop <= len(data)
