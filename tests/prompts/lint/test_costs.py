"""Costs in tokens, after page and chunk rounding, with a real tokenizer."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts import Prompt, PromptTokenizer, RenderedSegment, Volatility, load_tokenizer
from prompts.library import shipped_templates
from prompts.lint.cost import cost_sentence, prefix_break
from prompts.lint.findings import Finding, PrefixBreak
from prompts.lint.lazy_tokenizer import LazyTokenizer
from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.source_file import SourceFile
from tests.tokenizer_folders import write_tokenizer
from tests.tokenizer_packages import MODELS, RealTokenizers

RULES = (
    "Name the document that you used, in brackets. Answer from the documents below. " * 19
    + "Be kind."
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    return load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("model")))


def lint(name: str, text: str, options: LintOptions) -> tuple[Finding, ...]:
    return Linter(options).lint_file(SourceFile(Path(name), text.encode()))


def template(*segments: str) -> str:
    variables = "variables:\n  day: {type: date, volatility: turn}\n"
    rows = "".join(f"  - {{{segment}}}\n" for segment in segments)
    return f"name: sample\nversion: 1\n{variables}segments:\n{rows}"


def test_a_plain_files_break_is_counted_in_its_own_tokens(tokenizer: PromptTokenizer) -> None:
    options = LintOptions(tokenizer=tokenizer)
    (found,) = lint("a.j2", f"The day is {{{{ now() }}}}. {RULES}\n", options)
    assert found.cost is not None
    assert found.cost.token == tokenizer.count("The day is ")
    assert found.cost.of == tokenizer.count(f"The day is . {RULES}\n")
    assert found.cost.page_tokens == found.cost.of // 64 * 64
    assert found.cost.chunk_tokens == found.cost.of // 256 * 256
    said = f"breaks the shared prefix at token {found.cost.token:,} of {found.cost.of:,}"
    assert said in found.message


def test_a_templates_break_counts_the_chat_templates_words_too(tokenizer: PromptTokenizer) -> None:
    text = template(
        'id: head, role: system, volatility: turn, text: "The day is {{ day }}."',
        f'id: rules, role: system, volatility: static, text: "{RULES}"',
    )
    (found,) = lint("a.yaml", text, LintOptions(tokenizer=tokenizer))
    assert found.cost is not None
    assert found.cost.segment == "head"
    head = RenderedSegment(
        id="head", role="system", volatility=Volatility.TURN, text="The day is ", message=0
    )
    opening = tokenizer.tokenize(Prompt(template="", segments=(head,)))
    assert found.cost.token == opening.ranges[0].stop > tokenizer.count("The day is ")


def test_what_depends_on_values_in_front_is_unknown(tokenizer: PromptTokenizer) -> None:
    text = f"{{{{ company }}}} at {{{{ now() }}}}. {RULES}\n"
    (found,) = lint("a.j2", text, LintOptions(tokenizer=tokenizer))
    assert found.cost == PrefixBreak()
    assert "token" not in found.message


def test_without_a_tokenizer_costs_are_unknown_and_rules_that_need_one_are_named() -> None:
    linter = Linter(LintOptions())
    source = SourceFile(Path("a.j2"), f"{{{{ now() }}}} {RULES}\n".encode())
    result = linter.lint([source])
    assert result.findings[0].cost == PrefixBreak()
    assert result.skipped == ("FW301", "FW302", "FW303")


def test_a_scaffold_shorter_than_a_page_is_said_once_nothing_else_is_shared(
    tokenizer: PromptTokenizer,
) -> None:
    short = template(
        'id: rules, role: system, volatility: static, text: "Answer briefly."',
        'id: day, role: user, volatility: turn, text: "{{ day }}"',
    )
    options = LintOptions(tokenizer=tokenizer)
    assert [f.code for f in lint("a.yaml", short, options)] == ["FW302"]
    assert lint("a.yaml", short, LintOptions(tokenizer=tokenizer, page_size=1)) == ()
    longer = short.replace("volatility: turn, text", "volatility: session, text")
    assert lint("a.yaml", longer.replace("date, volatility: turn", "date, volatility: session"),
                options) == ()  # fmt: skip


def test_waste_behind_the_last_page_is_a_note_if_it_is_large(tokenizer: PromptTokenizer) -> None:
    text = template(
        f'id: rules, role: system, volatility: static, text: "{RULES}"',
        'id: day, role: user, volatility: turn, text: "{{ day }}"',
    )
    tokens = tokenizer.tokenize(
        Prompt(
            template="",
            segments=(
                RenderedSegment(
                    id="rules", role="system", volatility=Volatility.STATIC, text=RULES, message=0
                ),
            ),
        )
    ).ranges[0].stop  # fmt: skip
    page = tokens * 2 // 3
    wasteful = lint("a.yaml", text, LintOptions(tokenizer=tokenizer, page_size=page))
    assert [f.code for f in wasteful] == ["FW303"]
    assert wasteful[0].cost == PrefixBreak(
        segment="rules", token=page, of=tokens, page_tokens=tokens - page
    )
    assert lint("a.yaml", text, LintOptions(tokenizer=tokenizer, page_size=tokens)) == ()


def test_a_space_that_the_value_swallows_at_a_pages_edge_costs_the_page(
    tokenizer: PromptTokenizer,
) -> None:
    text = "The documents below: "
    page = tokenizer.count(text)
    options = LintOptions(tokenizer=tokenizer, page_size=page)
    found = lint("a.j2", f"{text}{{{{ question }}}}\n", options)
    assert [f.code for f in found] == ["FW301"]
    assert found[0].cost is not None
    assert found[0].cost.page_tokens == page
    assert lint("a.j2", f"{text[:-1]}\n{{{{ question }}}}\n", options) == ()
    other = LintOptions(tokenizer=tokenizer, page_size=page + 1)
    assert lint("a.j2", f"{text}{{{{ question }}}}\n", other) == ()


def test_a_tokenizer_is_loaded_only_when_a_finding_asks(tokenizer: PromptTokenizer) -> None:
    loaded = []

    def load() -> PromptTokenizer:
        loaded.append(True)
        return tokenizer

    options = LintOptions(tokenizer=LazyTokenizer(load))
    assert lint("a.j2", f"{RULES}\n{{{{ question }}}}\n", options) == ()
    assert loaded == []
    assert lint("a.j2", f"{{{{ now() }}}} {RULES}\n", options)
    assert loaded == [True]


@given(
    token=st.integers(0, 5000),
    more=st.integers(0, 5000),
    page=st.integers(1, 512),
    chunk=st.integers(1, 512),
)
def test_what_is_lost_is_whole_pages_and_never_more_than_lies_behind(
    token: int, more: int, page: int, chunk: int
) -> None:
    options = LintOptions(page_size=page, chunk_size=chunk)
    cost = prefix_break(token, token + more, options)
    for lost, unit in ((cost.page_tokens, page), (cost.chunk_tokens, chunk)):
        assert lost is not None
        assert lost % unit == 0
        assert more - unit < lost < more + unit
    assert str(f"{token:,}") in cost_sentence(cost)


def test_an_unknown_cost_says_nothing() -> None:
    assert cost_sentence(prefix_break(None, 5, LintOptions())) == ""


@pytest.mark.parametrize("model", MODELS)
def test_costs_come_through_each_real_chat_template(
    model: str, real_tokenizers: RealTokenizers
) -> None:
    text = template(
        'id: head, role: system, volatility: turn, text: "The day is {{ day }}."',
        f'id: rules, role: system, volatility: static, text: "{RULES}"',
    )
    tokenizer = real_tokenizers.load(model)
    (found,) = lint("a.yaml", text, LintOptions(tokenizer=tokenizer))
    assert found.cost is not None
    assert found.cost.token is not None
    assert found.cost.of is not None
    assert tokenizer.count("The day is") < found.cost.token < 60
    assert found.cost.of - found.cost.token >= tokenizer.count(RULES) - 2
    # What is said within a conversation has no beginning of its own.
    shipped = sorted(set(shipped_templates().glob("*.yaml")) - {shipped_templates() / "tools.yaml"})
    sources = [SourceFile(path, path.read_bytes()) for path in shipped]
    assert Linter(LintOptions(tokenizer=tokenizer)).lint(sources).findings == ()


def test_known_chat_templates_are_read_and_their_faults_named(
    real_tokenizers: RealTokenizers,
) -> None:
    linter = Linter(LintOptions())
    found = {
        path.stem: {f.code for f in linter.lint_file(SourceFile(path, path.read_bytes()))}
        for path in sorted(real_tokenizers.templates().glob("*.jinja"))
    }
    assert len(found) > 50
    assert not any("FW901" in codes for codes in found.values())
    allowed = {"FW102", "FW106", "FW204", "FW206", "FW208", "FW604", "FW605"}
    assert set().union(*found.values()) <= allowed
    # The date of gpt-oss stands in front of all; Mistral puts tools before the last user turn.
    assert "FW102" in found["openai-gpt-oss-120b"]
    assert "FW605" in found["mistralai-Mistral-Nemo-Instruct-2407"]
    assert "FW604" in found["Qwen-Qwen3-0.6B"]
