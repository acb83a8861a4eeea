"""What the linter says that a run would be refused for, beside what a gateway does with it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import httpx
import pytest
import sqlalchemy as sa

from app.agents.builtin import built_in
from app.agents.errors import AgentToolsError
from app.agents.loop import Call, CallState, End, Make, Spent, Step, left_for, next_move
from app.agents.mcp.listing import ToldTool, check_listing
from app.agents.mcp.source import McpSource, pinned_for
from app.agents.opening import open_agents
from app.agents.toolbox import NoServers, open_toolbox
from app.agents.tools import Tool
from app.settings import AgentsSettings, Settings
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from prompts.agent import Agent, BuiltInTool, Limits, McpTools
from prompts.agent_file import parse_agent
from prompts.agent_library import load_agents, shipped_agents
from prompts.errors import TemplateSyntaxError
from prompts.library import load_templates, shipped_templates
from prompts.lint.discovery import find_files
from prompts.lint.findings import Finding
from prompts.lint.linter import Linter
from prompts.lint.options import LintOptions
from prompts.lint.source_file import SourceFile
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

VARIABLES = {
    "bare": "",
    "toned": "tone: {type: text, volatility: static}",
    "counted": "count: {type: integer, volatility: static, optional: true}",
    "dated": "day: {type: date, volatility: static, optional: true}",
    "listed": "letters: {type: documents, volatility: static, optional: true}",
    "held": "excerpts: {type: documents, volatility: static}",
    "whole": "documents: {type: documents, volatility: static}",
    "tooled": "functions: {type: tools, volatility: static}",
}
ASKED = """\
name: asked
version: 1
variables:
  question: {type: text, volatility: turn}
segments:
  - {id: question, role: user, volatility: turn, text: "{{ question }}"}
"""
# What follows an agent's name and version, and what it lacks.
FITTING = {
    "plain": "instructions: Be brief.",
    "calling": "tools: [search, read_document]",
    "bare-quiet": "template: bare",
    "bare-blank": 'template: bare\ninstructions: " "',
    "toned-right": "template: toned\nvariables: {tone: dry}",
    "counted-not": "template: counted",
    "dated-right": 'template: dated\nvariables: {day: "2026-01-02"}',
    "whole-right": "template: whole",
    "asked-right": "template: asked",
    "same-shelves": "tools: [search: {collections: [a, b]}, agent: same-shelves-too]",
    "same-shelves-too": "tools: [search: {collections: [a, b], passages: 2}]",
    "one-shelf": "tools: [search: {collections: [a]}, agent: no-shelf]",
    "no-shelf": "tools: [search]",
    "other-shelves-sub": "tools: [search: {collections: [b, a]}]",
    "search": "description: An agent called as the tool is.",
    "helped": "tools: [agent: researcher]",
}
UNFIT = {
    "bare-told": "template: bare\ninstructions: Be brief.",
    "toned-not": "template: toned",
    "toned-twice": "template: toned\nvariables: {tone: dry, mood: good}",
    "toned-filled": "template: toned\nvariables: {tone: dry, question: What?}",
    "counted-text": 'template: counted\nvariables: {count: "3"}',
    "dated-wrong": "template: dated\nvariables: {day: tomorrow}",
    "listed-text": "template: listed\nvariables: {letters: a}",
    "held-not": "template: held",
    "tooled-not": "template: tooled",
    "asked-calling": "template: asked\ntools: [search]",
}
CLASHING = {
    "other-shelves": "tools: [search: {collections: [a, b]}, agent: other-shelves-sub]",
    "more-shelves": "tools: [search: {collections: [a, b, c]}, agent: same-shelves-too]",
    "no-shelves": "tools: [search, agent: same-shelves-too]",
    "two-of-a-name": "tools: [search, agent: search]",
    "two-of-a-name-apart": "tools: [agent: search, agent: no-shelf]",
}


def template(name: str, more: str) -> str:
    variable = more.partition(":")[0]
    shown = f"{{{{ {variable} }}}}" if variable and "tools" not in more else "Be kind."
    if "documents" in more:
        shown = f"{{% for each in {variable} %}}{{{{ each.text }}}}{{% endfor %}}"
    return (
        f"name: {name}\nversion: 1\n"
        + ("tools: functions\n" if name == "tooled" else "")
        + "variables:\n"
        + (f"  {more}\n" if more else "")
        + "  conversation: {type: messages, volatility: turn}\n"
        "segments:\n"
        f'  - {{id: rules, role: system, volatility: static, text: "{shown}"}}\n'
        "  - {id: conversation, volatility: turn, messages: conversation}\n"
    )


@pytest.mark.parametrize(
    ("code", "lead", "sub"),
    [
        ("FW801", "tools: [search]", "description: x"),
        ("FW802", "tools: [agent: gone]", "description: x"),
        ("FW803", "tools: [agent: sub]", "tools: [agent: lead]"),
        ("FW804", "tools: [agent: sub]", "template: chat@1"),
        ("FW805", "template: gone", "tools: [search]"),
    ],
)
def test_what_keeps_a_gateway_from_starting_is_told_in_its_place(
    code: str, lead: str, sub: str, tmp_path: Path
) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    name = "lead" if code == "FW801" else "sub"
    (agents / "lead.yaml").write_text(f"name: lead\nversion: 1\n{lead}\n")
    (agents / "sub.yaml").write_text(f"name: {name}\nversion: 1\n{sub}\n")
    settings = Settings(agents=AgentsSettings(folder=agents))
    templates = load_templates(shipped_templates())
    with pytest.raises(TemplateSyntaxError) as refused:
        open_agents(settings, sa.create_engine("sqlite://"), templates, servers=NoServers())
    sources = [SourceFile(path, path.read_bytes()) for path in find_files([agents])]
    [found] = Linter(LintOptions()).lint(sources).findings
    error, place = refused.value, found.place
    assert (error.path, error.line, error.column) == (place.path, place.line, place.column)
    assert found.code == code


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of agents and one of templates."""
    root = tmp_path_factory.mktemp("deployment")
    for folder in ("agents", "templates"):
        (root / folder).mkdir()
    for name, more in VARIABLES.items():
        (root / "templates" / f"{name}.yaml").write_text(template(name, more))
    (root / "templates" / "asked.yaml").write_text(ASKED)
    for name, more in (FITTING | UNFIT | CLASHING).items():
        text = f"name: {name}\nversion: 1\n{more}\n"
        (root / "agents" / f"{name}.yaml").write_text(text)
    return root


@pytest.fixture(scope="module")
def gateway(deployment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One that has them."""
    home = tmp_path_factory.mktemp("home")
    model = write_tokenizer(home / "tiny", chat_template=CHATML_TOOLS)
    config = SimulatorConfig(
        model_path=model, context_tokens=16_384, capacity_tokens=40_000,
        clock=ClockConfig(speedup=50),
    )  # fmt: skip
    with SimulatorThread(config) as simulator:
        settings = gateway_settings(home / "home", simulator.url).model_copy(
            update={
                "agents": AgentsSettings(folder=deployment / "agents"),
                "templates": deployment / "templates",
            }
        )
        with (
            running_gateway(settings) as url,
            httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
        ):
            wait_until_ready(url)
            yield http


@pytest.fixture(scope="module")
def findings(deployment: Path) -> Mapping[str, Sequence[Finding]]:
    """What the linter says of each file."""
    sources = [SourceFile(path, path.read_bytes()) for path in find_files([deployment])]
    found = Linter(LintOptions()).lint(sources).findings
    names = FITTING | UNFIT | CLASHING
    return {name: [f for f in found if f.place.path.stem == name] for name in names}


def refusal(gateway: httpx.Client, name: str) -> str | None:
    """What the gateway says of a request for an agent that it refuses."""
    body = {"model": f"agent:{name}", "input": "When?", "max_output_tokens": 4}
    answer = gateway.post("/v1/responses", json=body)
    return None if answer.status_code == 200 else str(answer.json()["error"]["message"])


@pytest.mark.parametrize("name", FITTING)
def test_what_the_linter_leaves_alone_runs(
    name: str, gateway: httpx.Client, findings: Mapping[str, Sequence[Finding]]
) -> None:
    # Of those that others call, whose tools clash with theirs, that is told.
    assert {f.code for f in findings[name]} <= {"FW807"}
    assert refusal(gateway, name) is None


@pytest.mark.parametrize("name", UNFIT)
def test_an_agent_whose_template_is_unfit_is_refused_in_the_linter_s_words(
    name: str, gateway: httpx.Client, findings: Mapping[str, Sequence[Finding]]
) -> None:
    [found] = [f for f in findings[name] if f.code == "FW806"]
    said = refusal(gateway, name)
    assert said is not None
    # What to do about it differs: here a file is mended, there a request.
    assert said[1:].partition(":")[0] in found.message


@pytest.mark.parametrize("name", CLASHING)
def test_an_agent_whose_tools_clash_is_refused(
    name: str, deployment: Path, gateway: httpx.Client
) -> None:
    library = load_agents(shipped_agents(), deployment / "agents")
    family = library.family(library.find(name))
    assert clashing(family)
    assert refused_in_a_run(family)
    assert refusal(gateway, name) is not None


@pytest.mark.parametrize("name", FITTING)
def test_agents_whose_tools_fit_together_are_said_not_to_clash(name: str, deployment: Path) -> None:
    library = load_agents(shipped_agents(), deployment / "agents")
    family = library.family(library.find(name))
    assert not clashing(family)
    assert not refused_in_a_run(family)


def clashing(family: Sequence[Agent]) -> bool:
    """Whether the linter says so of these agents, by themselves."""
    sources = [SourceFile(agent.path, agent.path.read_bytes()) for agent in family]
    apart = [SourceFile(Path("nowhere") / source.path.name, source.data) for source in sources]
    return any(f.code == "FW807" for f in Linter(LintOptions()).lint(apart).findings)


class Listed:
    """A server's session, as far as its list goes."""

    async def listed(self) -> tuple[ToldTool, ...]:
        return TOLD


TOLD = tuple(
    ToldTool(name=name, description=name, schema={"type": "object"}, idempotent_hint=hint)
    for name, hint in (("list", True), ("read", False))
)


class Servers:
    """One server, pinned for everybody."""

    def open(self, entry: McpTools, agent: Agent) -> McpSource:
        pins = {"files": check_listing("files", TOLD)}
        pinned = pinned_for(entry, agent.name, pins)
        return McpSource(Listed(), agent.name, entry, pinned)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lead", "sub", "clashes"),
    [
        ("mcp: files", "mcp: files", False),
        ("mcp: files, idempotent: [read]", "mcp: files, idempotent: [read, list]", True),
        ("mcp: files, idempotent: [read]", "mcp: files", True),
        ("mcp: files", "mcp: files, idempotent: [read]", True),
        ("mcp: files, idempotent: [read]", "mcp: files, only: [list]", False),
        ("mcp: files, idempotent: [read]", "mcp: files, only: [read]", True),
        # Believed of itself by the one, and said by the other.
        ("mcp: files, idempotent: [list]", "mcp: files, trust_hints: true", False),
    ],
)
def test_what_is_said_of_a_server_s_tools_clashes_as_in_a_run(
    lead: str, sub: str, clashes: bool
) -> None:
    texts = {
        "lead": f"name: lead\nversion: 1\ntools: [{{{lead}}}, {{agent: sub}}]\n",
        "sub": f"name: sub\nversion: 1\ntools: [{{{sub}}}]\n",
    }
    sources = [SourceFile(Path(f"nowhere/{name}.yaml"), t.encode()) for name, t in texts.items()]
    family = [parse_agent(source.path, source.data) for source in sources]
    found = [f for f in Linter(LintOptions()).lint(sources).findings if f.code == "FW807"]
    assert bool(found) == clashes == refused_in_a_run(family)


def refused_in_a_run(family: Sequence[Agent]) -> bool:
    async def opened() -> None:
        async with AsyncExitStack() as stack:
            await open_toolbox(family, stack, builtin=_unused, servers=Servers())

    try:
        anyio.run(opened)
    except AgentToolsError:
        return True
    return False


def _unused(entry: BuiltInTool) -> Tool:
    """A tool that is shown and never called."""
    return built_in(entry, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", range(1, 6))
@pytest.mark.parametrize("tool_calls", range(1, 4))
def test_a_budget_is_too_small_where_a_run_can_t_come_to_its_answer(
    steps: int, tool_calls: int
) -> None:
    texts = {
        "lead": f"limits: {{steps: {steps}, tool_calls: {tool_calls}}}\ntools: [agent: sub]",
        "sub": "tools: [search]",
    }
    sources = [
        SourceFile(Path(f"nowhere/{name}.yaml"), f"name: {name}\nversion: 1\n{more}\n".encode())
        for name, more in texts.items()
    ]
    found = [f for f in Linter(LintOptions()).lint(sources).findings if f.code == "FW808"]
    lead, sub = (parse_agent(source.path, source.data).limits for source in sources)
    handed = left_for(lead, sub, Spent(steps=1, tool_calls=1), 0)
    can_call = isinstance(next_move(lead, [_step()], seconds=0), Make) and _made(handed)
    spent = Spent(steps=1)
    can_answer = not isinstance(next_move(lead, [_step(spent)], seconds=0), End)
    assert bool(found) == (not can_call or not can_answer)


def _step(spent: Spent | None = None) -> Step:
    """One that calls a tool; with what a sub-agent used it is answered."""
    state = CallState.WAITING if spent is None else CallState.DONE
    call = Call(
        place=0, call_id="c", name="t", arguments="", idempotent=True, state=state,
        attempts=0 if spent is None else 1, spent=spent or Spent(),
    )  # fmt: skip
    return Step(finish="tool_calls", tokens=1, calls=(call,))


def _made(limits: Limits) -> bool:
    """Whether a run of such limits can call a tool at all."""
    move = next_move(limits, [_step()], seconds=0)
    return isinstance(move, Make) and bool(move.calls)
