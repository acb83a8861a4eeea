"""The lock notices what changes bytes, says what that costs, and is still for everything else."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts import (
    PromptDocument,
    PromptTokenizer,
    Template,
    Volatility,
    load_templates,
    load_tokenizer,
    parse_template,
    render,
    shipped_templates,
    token_digest,
)
from prompts.errors import LockFileError
from prompts.lock import Lock, LockedSegment, LockedTemplate, lock_templates
from prompts.lock_check import (
    LockFault,
    LockProblem,
    Loss,
    check_lock,
    check_lock_against,
    loss,
    next_lock,
)
from prompts.lock_cost import REMEDIES, Traffic, change_sentence
from prompts.lock_file import lock_text, parse_lock
from tests.tokenizer_folders import write_tokenizer
from tests.tokenizer_packages import MODELS, RealTokenizers

PATH = Path("prompts.lock")

RULES = """\
name: ferry
version: 1
variables:
  port: {type: text, volatility: collection}
  day: {type: date, volatility: session, format: YYYY-MM-DD}
  question: {type: text, volatility: turn}
segments:
  - {id: rules, role: system, volatility: static, text: "You know ferries."}
  - {id: style, role: system, volatility: static, text: " Be brief."}
  - {id: port, role: system, volatility: collection, text: " Port: {{ port }}."}
  - {id: day, role: system, volatility: session, text: " Day: {{ day }}."}
  - {id: question, role: user, volatility: turn, text: "{{ question }}"}
"""


def template(text: str = RULES) -> Template:
    return parse_template(Path("ferry.yaml"), text.encode())


def lock(*texts: str, tokenizer: PromptTokenizer | None = None) -> Lock:
    return lock_templates([template(text) for text in texts], tokenizer)


def ferry(text: str = RULES, tokenizer: PromptTokenizer | None = None) -> LockedTemplate:
    (locked,) = lock(text, tokenizer=tokenizer).templates.values()
    return locked


def faults(recorded: Lock, now: Lock) -> list[tuple[LockFault, str | None]]:
    problems = check_lock(recorded, now, page_size=1)
    return [(problem.fault, problem.reference) for problem in problems]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    return load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("models") / "tiny"))


def test_the_fingerprint_is_that_of_every_prompt_of_the_template() -> None:
    values = {"port": "Rim", "day": "2026-11-30", "question": "When?"}
    assert ferry().fingerprint == render(template(), values).fingerprint


def test_the_counts_are_those_of_a_real_prompt(tokenizer: PromptTokenizer) -> None:
    values = {"port": "Rim", "day": "2026-11-30", "question": "When?"}
    whole = tokenizer.tokenize(render(template(), values))
    locked = ferry(tokenizer=tokenizer)
    stop = whole.ranges[1].stop
    assert locked.scaffold_tokens == stop
    assert locked.token_digest == token_digest(whole.token_ids[:stop])
    assert [segment.tokens for segment in locked.segments] == [
        tokenizer.count("You know ferries."), tokenizer.count(" Be brief."), None, None, None
    ]  # fmt: skip


def test_a_scaffold_that_static_values_decide_has_no_fingerprint() -> None:
    text = RULES.replace("volatility: collection}", "volatility: static}").replace(
        '" Be brief."', '" In {{ port }}."'
    )
    assert ferry(text).fingerprint is None
    tools = RULES.replace("variables:", "tools: kit\nvariables:\n  kit: {type: tools, volatility: ")
    assert ferry(tools.replace("volatility: \n", "volatility: static}\n")).fingerprint is None
    assert ferry(tools.replace("volatility: \n", "volatility: tenant}\n")).fingerprint is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{{ port }}", "{{port}}"),
        ("{{ port }}", "{{ port }}{# foreword: ignore[FW101] it is short #}"),
        ("Port: {{", "Po{# a comment #}rt: {{"),
        ('"You know ferries."', "'You know ferries.'"),
        ('"You know ferries."', "\"{{ 'You know' }} ferries.\""),
        ("  - {id: rules", "  # why\n\n  - {id: rules"),
        ("volatility: static, text", "text"),
        ("version: 1", '"version": 1'),
    ],
)
def test_what_makes_the_same_bytes_is_no_change(old: str, new: str) -> None:
    text = RULES.replace(old, new)
    if new == "text":
        text = RULES.replace(
            'role: system, volatility: static, text: "You know ferries."',
            'text: "You know ferries.", volatility: static, role: system',
        )
    assert text != RULES
    assert ferry(text) == ferry()


CHANGES = [
    ("You know", "You knew", "rules"),
    ("Be brief", "Be brief!", "style"),
    ("role: system, volatility: static", "role: user, volatility: static", "rules"),
    (" Port: {{ port }}", " Port: {{ port | upper }}", "port"),
    (" Port: {{ port }}", " Port:  {{ port }}", "port"),
    (" Port: {{ port }}.", " Port: {% if port %}{{ port }}{% endif %}.", "port"),
    ("format: YYYY-MM-DD", "format: DD.MM.YYYY", "day"),
    ("text, volatility: collection}", "text, volatility: collection, normalize: false}", "port"),
    ('  - {id: style, role: system, volatility: static, text: " Be brief."}\n', "", "port"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "segment"), CHANGES)
def test_a_change_without_a_version_is_found_in_its_segment(
    old: str, new: str, segment: str
) -> None:
    changed = RULES.replace(old, new)
    (problem,) = check_lock(lock(RULES), lock(changed), page_size=1)
    assert problem.fault is LockFault.CHANGED
    assert problem.loss is not None
    assert problem.loss.segment == segment


@settings(deadline=None, max_examples=50)
@given(st.text(st.characters(codec="utf-8", exclude_characters="{}\"\\'"), min_size=1))
def test_any_text_added_to_the_scaffold_is_a_change(added: str) -> None:
    """Built from the parsed template, since YAML can't hold every text in quotes."""
    old = template()
    rules = replace(old.segments[0], constant=(old.segments[0].constant or "") + added)
    new = replace(old, segments=(rules, *old.segments[1:]))
    assert faults(lock_templates([old], None), lock_templates([new], None)) == [
        (LockFault.CHANGED, "ferry@1")
    ]


def test_the_lock_of_two_versions_is_current_until_one_goes() -> None:
    second = RULES.replace("version: 1", "version: 2").replace("brief", "kind")
    both = lock(RULES, second)
    assert faults(both, both) == []
    assert faults(lock(RULES), both) == [(LockFault.UNRECORDED, "ferry@2")]
    assert faults(both, lock(second)) == [(LockFault.REMOVED, "ferry@1")]


def test_a_retired_version_may_come_back_only_as_it_was() -> None:
    second = RULES.replace("version: 1", "version: 2")
    retired = next_lock(lock(RULES), lock(second))
    assert list(retired.retired) == ["ferry@1"]
    assert faults(retired, lock(RULES, second)) == [(LockFault.UNRECORDED, "ferry@1")]
    other = RULES.replace("brief", "kind")
    assert faults(retired, lock(other, second)) == [(LockFault.REUSED, "ferry@1")]
    assert next_lock(retired, lock(RULES, second)).retired == {}


def test_counts_are_checked_where_one_tokenizer_made_both(tokenizer: PromptTokenizer) -> None:
    counted, uncounted = lock(RULES, tokenizer=tokenizer), lock(RULES)
    assert faults(counted, counted) == []
    assert faults(counted, uncounted) == []
    assert faults(uncounted, counted) == [(LockFault.TOKENIZER, None)]
    other = replace(counted, tokenizer="another")
    assert faults(other, counted) == [(LockFault.TOKENIZER, None)]
    wrong = replace(counted.templates["ferry@1"], scaffold_tokens=1)
    edited = replace(counted, templates={"ferry@1": wrong})
    assert faults(edited, counted) == [(LockFault.MISCOUNTED, "ferry@1")]


def test_an_edited_fingerprint_is_seen_without_a_tokenizer(tokenizer: PromptTokenizer) -> None:
    counted = lock(RULES, tokenizer=tokenizer)
    edited = replace(counted.templates["ferry@1"], fingerprint="0")
    wrong = replace(counted, templates={"ferry@1": edited})
    for now in (lock(RULES), counted):
        assert faults(wrong, now) == [(LockFault.OUTDATED, "ferry@1")]
        assert next_lock(wrong, now) == counted


def test_writing_without_a_tokenizer_keeps_the_counts_of_what_is_unchanged(
    tokenizer: PromptTokenizer,
) -> None:
    counted = lock(RULES, tokenizer=tokenizer)
    assert next_lock(counted, lock(RULES)) == counted
    changed = next_lock(counted, lock(RULES.replace("brief", "kind")))
    assert changed.templates["ferry@1"].scaffold_tokens is None


def test_recording_a_change_again_does_not_hide_it_from_the_base() -> None:
    base, now = lock(RULES), lock(RULES.replace("brief", "kind"))
    problems = check_lock_against(base, now, now, page_size=1)
    assert [problem.fault for problem in problems] == [LockFault.CHANGED]


def test_a_version_that_the_base_does_not_know_is_a_draft() -> None:
    draft = RULES.replace("version: 1", "version: 2")
    edited = draft.replace("brief", "kind")
    base = lock(RULES)
    recorded, now = lock(RULES, draft), lock(RULES, edited)
    problems = check_lock_against(base, recorded, now, page_size=1)
    assert [(p.fault, p.reference) for p in problems] == [(LockFault.OUTDATED, "ferry@2")]
    assert check_lock_against(base, now, now, page_size=1) == ()


def counted_template(*segments: tuple[str, Volatility, int | None, str]) -> LockedTemplate:
    locked = tuple(
        LockedSegment(id=name, role="system", volatility=level, digest=digest, tokens=tokens)
        for name, level, tokens, digest in segments
    )
    static = [s.tokens or 0 for s in locked if s.volatility is Volatility.STATIC]
    return LockedTemplate(
        name="docqa",
        version=1,
        body="",
        fingerprint="",
        segments=locked,
        scaffold_tokens=3 + sum(static),
    )


STATIC, COLLECTION, TURN = Volatility.STATIC, Volatility.COLLECTION, Volatility.TURN


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (None, Loss()),
        (0, Loss(segment="a", kept_tokens=0, scaffold_tokens=303)),
        (1, Loss(segment="b", kept_tokens=64, scaffold_tokens=239)),
        (2, Loss(segment="documents", kept_tokens=256, scaffold_tokens=0)),
        (3, Loss(segment="question", scaffold_tokens=0, only_turn=True)),
    ],
)
def test_full_pages_before_the_change_are_kept(changed: int | None, expected: Loss) -> None:
    segments: list[tuple[str, Volatility, int | None, str]] = [
        ("a", STATIC, 100, "1"),
        ("b", STATIC, 200, "2"),
        ("documents", COLLECTION, None, "3"),
        ("question", TURN, None, "4"),
    ]
    old = counted_template(*segments)
    if changed is not None:
        name, level, tokens, _ = segments[changed]
        segments[changed] = (name, level, tokens, "other")
    assert loss(old, counted_template(*segments), page_size=64) == expected


def test_the_cost_is_tokens_times_requests_over_prefill() -> None:
    problem = LockProblem(
        fault=LockFault.CHANGED,
        reference="docqa@2",
        since="docqa@2",
        loss=Loss(segment="rules", kept_tokens=0, scaffold_tokens=1812),
    )
    assert change_sentence(problem, Traffic(requests_per_s=40, prefill_tok_s=9000)) == (
        "docqa@2 changed without a new version (segment 'rules'), which invalidates 1,812 tokens "
        "for every request of docqa; at 40 requests/s and 9,000 tok/s of prefill, 8.1 s of GPU per "
        "second until warm"
    )
    assert change_sentence(problem, Traffic()).endswith("for every request of docqa")
    seen = Traffic(requests_per_s=0.5, prefill_tok_s=250, cached_tokens=6000.4, estimated=True)
    assert change_sentence(problem, seen).endswith(
        "invalidates 6,000 tokens for every request of docqa; at 0.5 requests/s and about "
        "250 tok/s of prefill, 12 s of GPU per second until warm"
    )


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (Loss(), "so that no cached token is lost"),
        (Loss(segment="q", scaffold_tokens=0, only_turn=True), "only what is new in every turn"),
        (Loss(segment="d", kept_tokens=64, scaffold_tokens=0), "keeps the scaffold of docqa"),
        (Loss(segment="a"), "(nothing was counted)"),
        (Loss(segment="tools", kept_tokens=0, scaffold_tokens=70), "(the tools)"),
    ],
)
def test_each_kind_of_loss_has_its_words(lost: Loss, words: str) -> None:
    problem = LockProblem(fault=LockFault.CHANGED, reference="docqa@2", since="docqa@2", loss=lost)
    assert words in change_sentence(problem, Traffic())


def test_every_fault_has_a_sentence_and_a_remedy() -> None:
    assert set(REMEDIES) == set(LockFault)
    for fault in LockFault:
        assert change_sentence(LockProblem(fault=fault, reference="docqa@2"), Traffic())


@settings(deadline=None)
@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,8}@[1-9]", fullmatch=True), st.text(), max_size=4),
    st.none() | st.text(),
    st.lists(st.tuples(st.text(), st.none() | st.text(), st.none() | st.integers()), max_size=3),
)
def test_the_file_gives_back_what_was_written(
    retired: dict[str, str],
    identity: str | None,
    segments: list[tuple[str, str | None, int | None]],
) -> None:
    locked = LockedTemplate(
        name="a",
        version=3,
        body="b",
        fingerprint=None,
        segments=tuple(
            LockedSegment(id=name, role=role, volatility=TURN, digest="d", tokens=tokens)
            for name, role, tokens in segments
        ),
    )
    for templates in ({}, {"a@3": locked}, {"a@3": locked, "a@12": replace(locked, version=12)}):
        made = Lock(tokenizer=identity, templates=templates, retired=retired)
        text = lock_text(made)
        assert parse_lock(PATH, text.encode()) == made
        assert lock_text(parse_lock(PATH, text.encode())) == text


def test_versions_are_in_the_order_of_their_numbers() -> None:
    lines = lock_text(lock(*(RULES.replace("n: 1", f"n: {n}") for n in (10, 9, 1)))).splitlines()
    assert [line.strip() for line in lines if '"ferry@' in line] == [
        '"ferry@1": {', '"ferry@9": {', '"ferry@10": {'
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"", 1, "not valid JSON"),
        (b'{\n<<<<<<< HEAD\n "schema_version": 1}', 2, "not valid JSON"),
        (b'{"schema_version": 2, "templates": {}, "retired": {}}', 1, "schema version 2"),
        (b'{"schema_version": true, "templates": {}, "retired": {}}', 1, "'schema_version'"),
        (b'{"schema_version": 1, "retired": {}}', 1, "no 'templates'"),
        (b'{"schema_version": 1, "templates": {"a": {}}, "retired": {}}', 1, "not like name@"),
        (b'{"schema_version": 1, "templates": {"a@1": []}, "retired": {}}', 1, "not an object"),
        (b'{"a": 1, "a": 2}', 1, "'a' is there twice"),
        (b'"\xff"', 1, "can't be read"),
        (b"[]", 1, "not an object"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(data: bytes, line: int, words: str) -> None:
    with pytest.raises(LockFileError) as raised:
        parse_lock(PATH, data)
    assert raised.value.line == line
    assert words in str(raised.value)
    assert "run `foreword lock`" in str(raised.value)


PROJECTS = shipped_templates().parent.parent / "prompts.lock"


def test_the_projects_own_lock_is_current() -> None:
    recorded = parse_lock(PROJECTS, PROJECTS.read_bytes())
    now = lock_templates(load_templates(shipped_templates()), None)
    assert check_lock(recorded, now, page_size=64) == ()
    assert lock_text(next_lock(recorded, now)) == PROJECTS.read_text("utf-8")


def test_the_projects_own_lock_counts_with_the_default_models_tokenizer(
    real_tokenizers: RealTokenizers,
) -> None:
    """The tests' copy of it has the same tokens in a file of other bytes."""
    recorded = parse_lock(PROJECTS, PROJECTS.read_bytes())
    now = lock_templates(load_templates(shipped_templates()), real_tokenizers.load("smollm2"))
    assert check_lock(recorded, replace(now, tokenizer=recorded.tokenizer), page_size=64) == ()


@pytest.mark.parametrize("model", MODELS)
def test_the_scaffold_of_the_lock_is_that_of_real_prompts(
    real_tokenizers: RealTokenizers, model: str
) -> None:
    """But for its last token, which may merge with the text behind it."""
    tokenizer = real_tokenizers.load(model)
    documents = [PromptDocument(name="a.txt", text="A ferry.")]
    found = load_templates(shipped_templates()).find("docqa@2")
    whole = tokenizer.tokenize(render(found, {"documents": documents, "question": "What?"}))
    locked = lock_templates([found], tokenizer).templates["docqa@2"]
    assert locked.scaffold_tokens is not None
    assert whole.ranges[0].segment.id == "rules"
    assert abs(whole.ranges[0].stop - locked.scaffold_tokens) <= 1


def test_templates_of_another_folder_are_locked_alike(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(shipped_templates(), tmp_path / "copy"))
    here = lock_templates(load_templates(shipped_templates()), None)
    assert lock_templates(load_templates(copied), None) == here
