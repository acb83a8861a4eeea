"""`foreword render` shows what would be sent, byte for byte and token for token."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.commands.token_text import printable, token_text
from tests.tokenizer_folders import write_tokenizer
from tests.tokenizer_packages import MODELS, RealTokenizers

TYPED = """\
name: typed
version: 3
variables:
  kit: {type: tools, volatility: tenant}
  day: {type: date, volatility: session, format: D Month YYYY}
  price: {type: number, volatility: session, format: .2f}
  guests: {type: integer, volatility: session}
  extra: {type: json, volatility: session}
  history: {type: messages, volatility: session, optional: true}
  question: {type: text, volatility: turn}
tools: kit
segments:
  - {id: rules, role: system, volatility: static, text: "Be brief."}
  - id: facts
    role: system
    volatility: session
    text: " On {{ day }}, {{ guests }} guests pay {{ price }}: {{ extra | json }}"
  - {id: history, volatility: session, messages: history}
  - {id: question, role: user, volatility: turn, text: "{{ question }}"}
"""

VALUES = """\
kit:
  - {type: function, function: {name: search, parameters: {type: object}}}
day: 2026-11-30
price: 2.675
guests: 4
extra: {b: 1, a: [true]}
history:
  - {role: user, content: "Hi"}
  - role: assistant
    content: ""
    reasoning_content: "I look it up."
    tool_calls: [{id: c1, type: function, function: {name: search, arguments: '{"q" : 1}'}}]
  - {role: tool, tool_call_id: c1, content: "42"}
question: "When?"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("render")
    write_tokenizer(made / "model")
    (made / "typed.yaml").write_text(TYPED, "utf-8")
    (made / "values.yaml").write_text(VALUES, "utf-8")
    return made


def render(folder: Path, *arguments: str, tokenizer: bool = True, color: bool = False) -> Result:
    options = ["--cache", str(folder / "cache")]
    options += ["--tokenizer", str(folder / "model")] if tokenizer else []
    return CliRunner().invoke(main, ["render", *arguments, *options], color=color)


def test_segments_come_with_role_volatility_and_tokens(folder: Path) -> None:
    done = render(folder, "docqa", "--var", "question=What does a dog pay?")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("docqa@2 · fingerprint d27cff76912e8fedaad986d9c552170c · ")
    headings = [line.split(" · ")[:3] for line in lines if line.startswith("▌")]
    assert headings == [
        ["▌ rules", "system", "static"],
        ["▌ documents", "system", "collection"],
        ["▌ question", "user", "turn"],
    ]
    assert "│ What does a dog pay?" in lines
    assert '│ <document name="«documents»">' in lines
    assert "placeholders stand for: documents" in done.stderr
    assert "\x1b" not in done.stdout


def test_the_ranges_cover_all_tokens_without_a_gap(folder: Path) -> None:
    done = render(folder, "docqa", "--tokens")
    bounds = [tuple(map(int, pair)) for pair in re.findall(r"\[(\d+), (\d+)\)$", done.stdout, re.M)]
    assert bounds[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(bounds))
    shown = [line for line in done.stdout.splitlines() if line.startswith("│")]
    assert len(shown) == bounds[-1][1]
    assert [int(line.split()[1]) for line in shown] == list(range(len(shown)))


def test_every_type_can_be_given_in_a_file(folder: Path) -> None:
    path, values = str(folder / "typed.yaml"), str(folder / "values.yaml")
    done = render(folder, path, "--vars", values, "--format", "json", tokenizer=False)
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    texts = {segment["id"]: segment["text"] for segment in shown["segments"]}
    assert texts["facts"] == ' On 30 November 2026, 4 guests pay 2.68: {"a":[true],"b":1}'
    assert shown["placeholders"] == []
    assert [tool["name"] for tool in shown["tools"]] == ["search"]
    (history,) = [s["messages"] for s in shown["segments"] if s["id"] == "history"]
    assert history[1]["tool_calls"][0]["function"]["arguments"] == '{"q" : 1}'
    assert history[1]["reasoning_content"] == "I look it up."
    assert shown["tokens"] is None


def test_every_type_can_be_given_on_the_command_line(folder: Path) -> None:
    (folder / "extra.json").write_text('{"b": 1, "a": [true]}')
    given = {
        "kit": '[{"type": "function", "function": {"name": "search"}}]',
        "day": "2026-11-30",
        "price": "2.675",
        "guests": "4",
        "extra": f"@{folder / 'extra.json'}",
        "history": '[{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]',
        "question": "When = now?",
    }
    pairs = [part for name, value in given.items() for part in ("--var", f"{name}={value}")]
    done = render(folder, str(folder / "typed.yaml"), "--strict", *pairs, tokenizer=False)
    assert done.exit_code == 0, done.output
    assert '4 guests pay 2.68: {"a":[true],"b":1}' in done.stdout
    assert "│ When = now?" in done.stdout
    assert "▌ tools · tenant" in done.stdout


def test_every_type_has_a_placeholder(folder: Path) -> None:
    done = render(folder, str(folder / "typed.yaml"), tokenizer=False)
    assert done.exit_code == 0, done.output
    assert "On 1 January 2000, 0 guests pay 0.00: {}" in done.stdout
    assert "«question»" in done.stdout


def test_a_text_file_can_be_a_document(folder: Path) -> None:
    (folder / "fares.md").write_bytes(b"Dogs\r\npay 5.")
    done = render(folder, "docqa", "--var", f"documents=@{folder / 'fares.md'}", tokenizer=False)
    assert '<document name="fares.md">' in done.stdout
    assert "│ Dogs\n│ pay 5." in done.stdout


def test_colour_is_for_terminals_that_want_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b[32m" in render(folder, "docqa", color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in render(folder, "docqa", color=True).stdout
    monkeypatch.setenv("NO_COLOR", "")
    assert "\x1b[35m" in render(folder, "docqa", color=True).stdout


def test_what_cannot_be_seen_is_spelled_out(folder: Path) -> None:
    done = render(folder, "docqa", "--var", "question=a\u200bb\u00a0c\x1b[31m ", color=True)
    assert "a⟨U+200B⟩b⟨U+00A0⟩c\\x1b[31m" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing",), "no template 'nothing'; there are: chat@1, compact@1, docqa@2"),
        (("docqa", "--strict"), "template docqa@2 needs a value for 'documents'"),
        (("docqa", "--var", "question"), "not like name=value"),
        (("docqa", "--var", "colour=red"), "has no variable 'colour'"),
        (("docqa", "--var", "documents=[1"), "documents must be given as JSON"),
        (("docqa", "--var", "documents=[1]"), "'name' must be text"),
        (("docqa", "--var", "documents={}"), "must be a list of"),
        (("docqa", "--var", "question=@/nowhere"), "/nowhere can't be read"),
        (("docqa", "--templates", "/nowhere"), "does not exist"),
        (("docqa", "--vars", __file__), "can't be read"),
        (("docqa", "--tokens", "--tokenizer", "/nowhere"), "has no tokenizer.json"),
    ],
)
def test_bad_usage_is_one_sentence(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    done = render(folder, *arguments, tokenizer=False)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "Traceback" not in done.output


def test_tokens_without_a_tokenizer_say_how_to_get_one(folder: Path) -> None:
    done = render(folder, "docqa", "--tokens", tokenizer=False)
    assert done.exit_code == 2
    assert "--tokenizer FOLDER" in done.stderr
    assert render(folder, "docqa", tokenizer=False).exit_code == 0


def test_a_chat_template_that_hides_its_own_words_costs_only_the_counts(
    folder: Path, tmp_path: Path
) -> None:
    write_tokenizer(tmp_path / "model", chat_template="{{ raise_exception('no system text') }}")
    done = render(folder, "docqa", "--tokenizer", str(tmp_path / "model"), tokenizer=False)
    assert done.exit_code == 0
    assert "no token counts" in done.stderr
    assert "▌ rules · system · static" in done.stdout


@pytest.mark.parametrize("model", MODELS)
def test_the_texts_of_tokens_joined_are_the_text(
    real_tokenizers: RealTokenizers, model: str
) -> None:
    tokenizer = real_tokenizers.load(model)
    text = " The fare is 12.50 €\n\n  for 東京, naïve 👩🏽‍🚀 𐍈\t{x}"
    ids = tokenizer.cache.encode((text,)).ids
    joined = "".join(token_text(tokenizer, token_id) for token_id in ids)
    if model == "gemma3":  # bytes are tokens of their own there, <0xF0>, not parts of a text
        assert joined.split("\t")[1] == "{x}"
        assert joined.startswith(" The fare is 12.50 €\n\n  for 東京, naïve ")
    else:
        assert joined.encode("utf-8", "surrogateescape").decode() == text
    assert "\ufffd" not in printable(joined)
