"""What the linter says of agent files that don't fit together, and what it leaves alone."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.agent import Agent
from prompts.agent_file import parse_agent
from prompts.agent_library import AgentLibrary, load_agents, shipped_agents
from prompts.errors import TemplateSyntaxError
from prompts.lint.discovery import find_files
from prompts.lint.findings import Confidence, Finding, Severity
from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.source_file import SourceFile

REFUSED_AT_START = {"FW801", "FW802", "FW803", "FW804"}
SUPPORT = """\
name: support
version: 1
variables:
  tone: {type: text, volatility: static}
  conversation: {type: messages, volatility: turn}
segments:
  - {id: rules, role: system, volatility: static, text: "Be {{ tone }}."}
  - {id: conversation, volatility: turn, messages: conversation}
"""


def agent(name: str, *lines: str, tools: Iterable[str] = ()) -> str:
    listed = ["tools:", *(f"  - {tool}" for tool in tools)] if tools else ["instructions: Go on."]
    return "\n".join([f"name: {name}", "version: 1", *lines, *listed]) + "\n"


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def linted(*paths: Path) -> tuple[Finding, ...]:
    sources = [SourceFile(path, path.read_bytes()) for path in find_files(paths)]
    return Linter(LintOptions()).lint(sources).findings


def told(*paths: Path) -> list[str]:
    """`FILE:LINE:COLUMN CODE` of each finding."""
    return [f"{f.place.path.name}:{f.place.line}:{f.place.column} {f.code}" for f in linted(*paths)]


def test_two_files_of_one_name_are_told_at_the_second_whatever_their_versions(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "agents", a=agent("same"), b=agent("same").replace("1", "2"))
    [found] = linted(folder)
    assert (found.code, found.place.path, found.place.line) == ("FW801", folder / "b.yaml", 1)
    assert f"already defined by {folder / 'a.yaml'}" in found.message


def test_of_two_with_one_name_the_one_that_is_linted_is_told(tmp_path: Path) -> None:
    folder = write(tmp_path / "agents", a=agent("same"), b=agent("same"))
    [found] = linted(folder / "a.yaml")
    assert found.place.path == folder / "a.yaml"
    assert f"already defined by {folder / 'b.yaml'}" in found.message


def test_a_shipped_agent_s_name_is_taken_and_it_may_be_a_tool(tmp_path: Path) -> None:
    folder = write(tmp_path / "agents", mine=agent("mine", tools=["agent: researcher"]))
    assert told(folder) == []
    write(folder, researcher=agent("researcher"))
    assert told(folder) == ["researcher.yaml:1:7 FW801"]


def test_folders_are_apart(tmp_path: Path) -> None:
    write(tmp_path / "one", a=agent("same"))
    write(tmp_path / "two", a=agent("same"))
    assert told(tmp_path) == []
    write(tmp_path / "two", b=agent("b", tools=["agent: far"]))
    write(tmp_path / "one", far=agent("far"))
    assert told(tmp_path) == ["b.yaml:4:5 FW802"]


def test_what_lies_beside_a_linted_file_counts_and_isn_t_told(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "agents",
        lead=agent("lead", tools=["agent: checker"]),
        checker=agent("checker", "template: no-such-one"),
    )
    assert told(folder / "lead.yaml") == ["lead.yaml:4:5 FW804"]
    assert told(folder / "checker.yaml") == ["checker.yaml:3:11 FW804", "checker.yaml:3:11 FW805"]
    write(folder, checker=agent("checker"))
    assert told(folder / "lead.yaml") == []
    (folder / "checker.yaml").unlink()
    assert told(folder / "lead.yaml") == ["lead.yaml:4:5 FW802"]


def test_a_file_that_can_t_be_read_is_an_agent_all_the_same(tmp_path: Path) -> None:
    faulty = agent("checker") + "limits: {stops: 1}\n"
    folder = write(
        tmp_path / "agents", lead=agent("lead", tools=["agent: checker"]), checker=faulty
    )
    assert told(folder) == ["checker.yaml:4:10 FW901"]
    assert told(folder / "lead.yaml") == []


def test_a_name_and_a_version_are_an_agent_beside_others(tmp_path: Path) -> None:
    lead = agent("lead", tools=["agent: bare"])
    folder = write(tmp_path / "agents", lead=lead, bare="name: bare\nversion: 1\n")
    assert told(folder / "lead.yaml") == []


def test_other_yaml_beside_agents_is_none_of_them(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "agents",
        a=agent("a"),
        deployment="kind: Deployment\ntemplate: {}\nname: b\n",
        values="limits: {cpu: 1}\n",
        broken="template: [\n",
    )
    assert told(folder) == []


def test_a_circle_is_told_once_and_with_its_way(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "agents",
        a=agent("a", tools=["agent: b"]),
        b=agent("b", tools=["agent: c"]),
        c=agent("c", tools=["search", "agent: a"]),
    )
    [found] = linted(folder)
    assert (found.code, found.place.path.name, found.place.line) == ("FW803", "c.yaml", 5)
    assert "(a → b → c)" in found.message
    [found] = linted(folder / "b.yaml")
    assert (found.code, found.place.line) == ("FW803", 4)
    assert "(c → a → b)" in found.message


def test_a_chain_longer_than_python_s_stack_is_no_matter() -> None:
    sources = [
        SourceFile(Path(f"far/a{n}.yaml"), agent(f"a{n}", tools=[f"agent: a{n + 1}"]).encode())
        for n in range(1_200)
    ]
    sources.append(SourceFile(Path("far/last.yaml"), agent("a1200").encode()))
    found = Linter(LintOptions(select=("FW80",))).lint(sources).findings
    assert not {f.code for f in found} & REFUSED_AT_START


NAMES = st.sampled_from(["a", "b", "c", "d", "researcher"])
AGENTS = st.lists(
    st.tuples(NAMES, st.sampled_from(["chat", "chat@1"]), st.lists(NAMES, max_size=2, unique=True)),
    min_size=1,
    max_size=4,
)


@given(AGENTS)
def test_the_linter_tells_what_the_gateway_refuses_and_nothing_else(
    agents: list[tuple[str, str, list[str]]],
) -> None:
    sources = []
    for number, (name, template, tools) in enumerate(agents):
        listed = [f"agent: {tool}" for tool in tools if tool != name]
        text = agent(name, f"template: {template}", tools=listed)
        sources.append(SourceFile(Path(f"nowhere/{number}.yaml"), text.encode()))
    found = [f for f in Linter(LintOptions()).lint(sources).findings if f.code in REFUSED_AT_START]
    refused = refusal([parse_agent(source.path, source.data) for source in sources])
    if refused is None:
        assert found == []
    else:
        places = {(f.place.path, f.place.line, f.place.column) for f in found}
        assert (refused.path, refused.line, refused.column) in places
        assert any(refused.problem[1:] in f.message for f in found)


def refusal(own: list[Agent]) -> TemplateSyntaxError | None:
    """What a gateway says that is started with these agents, and Foreword's."""
    try:
        AgentLibrary([*load_agents(shipped_agents()), *own])
    except TemplateSyntaxError as error:
        return error
    return None


def test_templates_are_found_where_they_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting = agent("a", "template: support", "variables: {tone: dry}", tools=["search"])
    folder = write(tmp_path / "deploy" / "agents", a=fitting)
    [found] = linted(folder)
    assert (found.code, found.place.line, found.place.column) == ("FW805", 3, 11)
    assert found.confidence is Confidence.SUSPECTED

    elsewhere = write(tmp_path / "elsewhere", support=SUPPORT)
    assert told(folder, elsewhere) == []
    monkeypatch.setenv("FOREWORD_TEMPLATES", str(elsewhere))
    assert told(folder) == []
    monkeypatch.delenv("FOREWORD_TEMPLATES")
    (tmp_path / "foreword.toml").write_text('templates = "elsewhere"\n')
    assert told(folder) == []
    (tmp_path / "foreword.toml").write_text("templates = [\n")
    assert told(folder) == ["a.yaml:3:11 FW805"]
    write(tmp_path / "deploy" / "prompts", support=SUPPORT)
    assert told(folder) == []


@pytest.mark.parametrize("reference", ["chat@2", "chat@01", "Chat", "support@1@1"])
def test_a_version_that_isn_t_there_is_no_template(tmp_path: Path, reference: str) -> None:
    folder = write(tmp_path / "agents", a=agent("a", f"template: {reference}"))
    assert told(folder) == ["a.yaml:3:11 FW805"]


def test_a_template_is_unfit_only_where_none_that_may_be_meant_will_do(tmp_path: Path) -> None:
    folder = write(tmp_path / "agents", a=agent("a", "template: support", tools=["search"]))
    write(tmp_path / "templates", support=SUPPORT)
    assert told(folder) == ["a.yaml:3:11 FW806"]
    older = SUPPORT.replace("  tone: {type: text, volatility: static}\n", "").replace(
        "{{ tone }}", "kind"
    )
    write(tmp_path / "others", support=older)
    assert told(folder) == []


def test_the_newest_version_of_a_folder_is_the_one_that_is_meant(tmp_path: Path) -> None:
    folder = write(tmp_path / "agents", a=agent("a", "template: support", tools=["search"]))
    older = SUPPORT.replace("  tone: {type: text, volatility: static}\n", "").replace(
        "{{ tone }}", "kind"
    )
    templates = write(tmp_path / "templates", old=older)
    assert told(folder, templates) == []
    write(templates, new=SUPPORT.replace("version: 1", "version: 2"))
    assert told(folder, templates) == ["a.yaml:3:11 FW806"]
    write(folder, a=agent("a", "template: support@1", tools=["search"]))
    assert told(folder, templates) == []


def test_the_order_of_tools_is_no_matter(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "agents",
        lead=agent("lead", tools=["search", "read_document", "mcp: files", "agent: checker"]),
        checker=agent("checker", tools=["mcp: files", "read_document", "search: {passages: 3}"]),
    )
    assert told(folder) == []


def test_a_clash_is_told_once_however_many_agents_share_it(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "agents",
        one=agent("one", tools=["agent: two"]),
        two=agent("two", tools=["search: {collections: [a, b]}", "agent: zed"]),
        zed=agent("zed", tools=["search: {collections: [b, a]}"]),
    )
    assert told(folder) == ["zed.yaml:4:5 FW807"]
    assert told(folder / "two.yaml") == ["two.yaml:4:5 FW807"]
    assert told(folder / "one.yaml") == []


@pytest.mark.parametrize(
    ("limits", "told_at"),
    [
        ("{steps: 1}", "lead.yaml:3:10 FW808"),
        ("{steps: 2}", "lead.yaml:3:10 FW808"),
        ("{steps: 3}", None),
        ("{tool_calls: 1}", "lead.yaml:3:10 FW808"),
        ("{tool_calls: 2}", None),
        ("{tokens: 1}", None),
    ],
)
def test_a_budget_has_to_be_enough_for_sub_agents(
    tmp_path: Path, limits: str, told_at: str | None
) -> None:
    folder = write(
        tmp_path / "agents",
        lead=agent("lead", f"limits: {limits}", tools=["agent: checker"]),
        checker=agent("checker", tools=["search"] if "calls" in limits else ()),
    )
    assert told(folder) == ([told_at] if told_at else [])
    assert {f.severity for f in linted(folder)} <= {Severity.WARNING}


def test_a_budget_is_told_where_it_is_too_small_first(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "agents",
        a=agent("a", tools=["agent: b"]),
        b=agent("b", "limits: {steps: 3}", tools=["agent: c"]),
        c=agent("c", tools=["agent: d"]),
        d=agent("d"),
    )
    [found] = linted(folder)
    assert (found.place.path.name, found.place.line) == ("b.yaml", 3)
    assert "c has 2 left when it is called (b → c), so it can't answer" in found.message
    write(
        folder,
        a=agent("a", "limits: {steps: 4}", tools=["agent: b"]),
        b=agent("b", tools=["agent: c"]),
    )
    [found] = linted(folder)
    assert found.place.path.name == "a.yaml"
    assert "c has 2 left when it is called (a → b → c)" in found.message
    write(folder, a=agent("a", "limits: {steps: 5}", tools=["agent: b"]))
    assert told(folder) == []


def test_what_a_caller_decides_is_noted_where_the_files_differ(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "agents",
        lead=agent("lead", "temperature: 0.7", tools=["agent: checker"]),
        checker=agent("checker", "temperature: 0", "parallel_tool_calls: false"),
    )
    found = linted(folder)
    assert [(f.code, f.place.line, f.severity) for f in found] == [
        ("FW809", 3, Severity.NOTE), ("FW809", 4, Severity.NOTE),
    ]  # fmt: skip
    assert "lead's temperature counts (0.7)" in found[0].message
    write(folder, lead=agent("lead", tools=["agent: checker"]), checker=agent("checker"))
    assert told(folder) == []


def test_a_comment_suppresses_and_a_text_doesn_t(tmp_path: Path) -> None:
    ignored = agent(
        "lead", tools=["agent: gone  # foreword: ignore[FW802] comes with the next one"]
    )
    folder = write(tmp_path / "agents", lead=ignored)
    assert told(folder) == []
    write(folder, lead=ignored.replace(" comes with the next one", ""))
    assert told(folder) == ["lead.yaml:4:18 FW904"]
    write(folder, lead=agent("lead", tools=["search  # foreword: ignore[FW802] nothing is wrong"]))
    assert told(folder) == ["lead.yaml:4:13 FW903"]
    block = (
        "instructions: |  # foreword: ignore[FW805] told in a comment\n  # foreword: ignore[FW1]"
    )
    quoted = 'description: "say # foreword: ignore[FW1] x"'
    text = f"name: lead\nversion: 1\n{quoted}\n{block}\ntemplate: gone\n# foreword: ignore[FW2] y\n"
    write(folder, lead=text)
    assert told(folder) == [
        "lead.yaml:4:18 FW903", "lead.yaml:6:11 FW805", "lead.yaml:7:1 FW903",
    ]  # fmt: skip


def test_rules_of_agents_can_be_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "agents", lead=agent("lead", tools=["agent: gone"]))
    sources = [SourceFile(path, path.read_bytes()) for path in find_files([folder])]
    assert Linter(LintOptions(ignore=("FW8",))).lint(sources).findings == ()
    assert Linter(LintOptions(select=("agent-not-found",))).lint(sources).findings != ()


def test_the_shipped_agents_are_clean_also_as_a_copy(tmp_path: Path) -> None:
    assert told(shipped_agents()) == []
    copy = tmp_path / "checkout" / "prompts"
    copy.mkdir(parents=True)
    (copy / "agent_file.py").write_text("")
    write(copy / "agents", researcher=(shipped_agents() / "researcher.yaml").read_text("utf-8"))
    assert told(copy / "agents") == []
