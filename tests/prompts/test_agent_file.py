"""Agent files: what is read of them, and what is said of faults, with the place."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

import prompts
from prompts.agent import Agent, AgentTool, BuiltInTool, Limits, McpTools, StepLimits
from prompts.agent_file import is_agent_file, parse_agent
from prompts.agent_library import AgentLibrary, load_agents, shipped_agents
from prompts.agent_schema import agent_schema, schema_text
from prompts.errors import AgentNotFoundError, TemplateError
from prompts.lint.discovery import find_files
from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.source_file import SourceFile

PATH = Path("a.yaml")
WHOLE = """
name: librarian
version: 2
description: Finds things.
template: chat@1
variables: {tone: dry}
instructions: |
  Look it up.
tools:
  - search: {collections: [handbook, letters], passages: 4}
  - read_document
  - mcp: files
    only: [read, list]
    idempotent: [read]
  - agent: checker
limits:
  steps: 5
  tokens: 900
  step: {tokens: 200, tool_calls: 2}
temperature: 0.5
parallel_tool_calls: false
"""


def parsed(text: str) -> Agent:
    return parse_agent(PATH, text.encode())


def test_all_of_a_file_is_read() -> None:
    agent = parsed(WHOLE)
    assert (agent.reference, agent.template, agent.instructions) == (
        "librarian@2", "chat@1", "Look it up.\n",
    )  # fmt: skip
    assert agent.tools == (
        BuiltInTool(name="search", collections=("handbook", "letters"), passages=4),
        BuiltInTool(name="read_document"),
        McpTools(server="files", only=("read", "list"), idempotent=("read",)),
        AgentTool(agent="checker"),
    )
    step = StepLimits(tokens=200, tool_calls=2)
    assert agent.limits == Limits(steps=5, tokens=900, step=step)
    assert (agent.temperature, agent.parallel_tool_calls) == (0.5, False)
    assert (agent.variables, agent.pin) == ({"tone": "dry"}, Path("librarian.tools.json"))


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        ("name: librarian", "name: Librarian", "2:7", "lower-case letters"),
        ("version: 2", "version: two", "3:10", "whole number"),
        ("version: 2", "version: 0", "3:10", "whole number"),
        ("  - read_document", "  - read_documents", "11:5", "no built-in tool 'read_documents'"),
        ("  - read_document", "  - search", "11:5", "the tool 'search' is listed twice"),
        ("  - read_document", "  - {a: 1, b: 2}", "11:5", "a tool is one of"),
        ("  - read_document", "  - read_document: {passages: 1}", "11:21", "unknown field"),
        ("idempotent: [read]", "idempotent: [write]", "14:17", "not among `only`"),
        ("only: [read, list]", "only: []", "13:11", "name at least one"),
        ("  - agent: checker", "  - agent: librarian", "15:5", "its own tool"),
        ("steps: 5", "steps: 0", "17:10", "whole number from 1"),
        ("steps: 5", "stops: 5", "17:3", "unknown field 'stops'"),
        ("temperature: 0.5", "temperature: 3", "20:14", "from 0 to 2"),
        ("temperature: 0.5", "temperature: .inf", "20:14", "from 0 to 2"),
        ("false", "perhaps", "21:22", "true or false"),
    ],
)
def test_a_fault_is_told_with_its_place(old: str, new: str, place: str, said: str) -> None:
    text = WHOLE.replace(old, new, 1)
    assert text != WHOLE
    with pytest.raises(TemplateError) as fault:
        parsed(text)
    assert f"a.yaml:{place}: " in str(fault.value)
    assert said in str(fault.value)
    source = SourceFile(path=PATH, data=text.encode())
    [finding] = Linter(LintOptions()).lint([source]).findings
    assert (finding.code, f"{finding.place.line}:{finding.place.column}") == ("FW901", place)


def test_the_linter_finds_agents_and_leaves_good_ones_alone(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(WHOLE)
    (tmp_path / "other.yaml").write_text("name: x\nlimits: {cpu: 1}\n")
    found = list(find_files([tmp_path]))
    assert found == [tmp_path / "a.yaml"]
    whole = SourceFile(path=PATH, data=WHOLE.encode())
    assert [f.code for f in Linter(LintOptions()).lint([whole]).findings] == ["FW806", "FW802"]
    good = WHOLE.replace("variables: {tone: dry}\n", "").replace("agent: checker", "mcp: notes")
    source = SourceFile(path=PATH, data=good.encode())
    assert Linter(LintOptions()).lint([source]).findings == ()


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (WHOLE, True),
        ("name: a\nversion: 1\ntools:\n  - search\n", True),
        ("name: a\nversion: 1\ndescription: Finds things.\n", True),
        ("name: a\nversion: 1\ndescription: x\nsegments: []\n", False),
        ("name: a\nversion: 1\ntools: functions\nsegments: []\n", False),
        ("name: a\nversion: 1\ntools: functions\n", False),
        ("name: a\nversion: 1\n", False),
    ],
)
def test_agents_are_told_from_templates(text: str, is_one: bool) -> None:
    assert is_agent_file(text.encode()) is is_one


def agent(name: str, *tools: str, template: str = "chat") -> Agent:
    listed = "".join(f"\n  - agent: {tool}" for tool in tools) or " []"
    text = f"name: {name}\nversion: 1\ntemplate: {template}\ntools:{listed}\n"
    return parse_agent(Path(f"{name}.yaml"), text.encode())


def test_a_library_knows_who_works_for_whom() -> None:
    library = AgentLibrary([agent("c"), agent("a", "b", "c"), agent("b", "c")])
    assert [each.name for each in library] == ["a", "b", "c"]
    assert [each.name for each in library.family(library.find("b"))] == ["b", "c"]
    with pytest.raises(AgentNotFoundError, match="there are: a, b, c"):
        library.find("d")


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        ([agent("a", "b")], r"a\.yaml:5:5: there is no agent 'b'; there are: a$"),
        ([agent("a", "b"), agent("b", "a")], "in its turn"),
        ([agent("a", "b"), agent("b", template="other")], "the template other"),
        ([agent("a"), agent("a")], r"a\.yaml:1:7: the agent 'a' is already defined by a\.yaml"),
    ],
)
def test_agents_that_dont_fit_together_are_refused(agents: list[Agent], said: str) -> None:
    with pytest.raises(TemplateError, match=said):
        AgentLibrary(agents)


def test_a_folder_s_agents_may_call_those_of_another_one(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("name: own\nversion: 1\ntools: [{agent: researcher}]\n")
    library = load_agents(shipped_agents(), tmp_path)
    assert [each.name for each in library.family(library.find("own"))] == ["own", "researcher"]


def test_a_field_s_place_is_that_of_its_value_or_of_the_name_where_there_is_none() -> None:
    agent = parsed(WHOLE)
    fields = ("template", "variables.tone", "instructions", "limits.tokens", "limits.seconds")
    assert [agent.place(field) for field in fields] == [(5, 11), (6, 13), (7, 1), (18, 3), (2, 7)]
    assert [(tool.line, tool.column) for tool in agent.tools][:2] == [(10, 5), (11, 5)]


NAMES = st.sampled_from(["a", "lib-1", "", "A b", 3])
COUNTS = st.sampled_from([1, 5, 0, -1, 10**9, "1", True, 1.5])
LISTS = st.lists(st.sampled_from(["x", "y", 1]), max_size=3)
TOOLS = st.one_of(
    st.sampled_from(["search", "read_document", "write", 1]),
    st.fixed_dictionaries({"agent": NAMES}),
    st.fixed_dictionaries(
        {"mcp": st.sampled_from(["files", 1])},
        optional={"only": LISTS, "trust_hints": st.sampled_from([True, "yes"])},
    ),
    st.fixed_dictionaries(
        {"search": st.fixed_dictionaries({}, optional={"collections": LISTS, "passages": COUNTS})}
    ),
)
STEP = st.fixed_dictionaries({}, optional={"tokens": COUNTS, "steps": COUNTS})
FILES = st.fixed_dictionaries(
    {"name": NAMES, "version": COUNTS},
    optional={
        "tools": st.lists(TOOLS, max_size=1),
        "limits": st.fixed_dictionaries({}, optional={"steps": COUNTS, "step": STEP}),
        "temperature": st.sampled_from([0, 1.5, 2, 3, "1"]),
        "other": st.just(1),
    },
)


@given(FILES)
def test_the_schema_takes_what_the_parser_does(file: dict[str, Any]) -> None:
    own = {"agent": file["name"]}
    assume(own not in file.get("tools", ()))  # what a name means, no schema can say
    try:
        parsed(yaml.safe_dump(file, sort_keys=False))
        taken = True
    except TemplateError:
        taken = False
    assert taken == jsonschema_rs.is_valid(agent_schema(), file)


def test_the_schema_s_file_is_what_is_generated() -> None:
    path = Path(prompts.__file__).parent / "agent.schema.json"
    assert path.read_text("utf-8") == schema_text(), "run `python -m prompts.agent_schema`"
    assert json.loads(schema_text()) == agent_schema()


@pytest.mark.parametrize("path", sorted(shipped_agents().glob("*.yaml")), ids=lambda p: p.name)
def test_the_shipped_agents_are_valid(path: Path) -> None:
    assert jsonschema_rs.is_valid(agent_schema(), yaml.safe_load(path.read_text("utf-8")))
    assert load_agents(shipped_agents()).find(path.stem).description
