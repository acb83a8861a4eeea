"""`foreword agents`, with a public server from the package index, and with one that changes."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from tests.app.agents.mcp.conftest import HERE

_TIME = {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Agent files; the settings declare two servers."""
    raw = {"command": sys.executable, "args": [str(HERE / "raw_server.py"), str(tmp_path)]}
    declared = {"time": _TIME, "raw": raw, "none": {"command": "/no/such/program"}}
    monkeypatch.setenv("FOREWORD_MCP__SERVERS", json.dumps(declared))
    monkeypatch.setenv("FOREWORD_HOME", str(tmp_path))
    agents = tmp_path / "agents"
    agents.mkdir()
    monkeypatch.setenv("FOREWORD_AGENTS__FOLDER", str(agents))
    return agents


def write_agent(folder: Path, tools: str, *, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(f"name: {name}\nversion: 1\ninstructions: Help.\ntools: {tools}\n")
    return path


def foreword(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["agents", *arguments])


@pytest.mark.slow
def test_a_public_server_is_pinned_and_shown(folder: Path) -> None:
    write_agent(folder, "[{mcp: time, only: [get_current_time]}, {agent: other}, search]")
    write_agent(folder, "[search]", name="other")
    pinned = foreword("pin", "mine")
    assert pinned.exit_code == 0, pinned.output
    assert "time__get_current_time: Get current time in a specific timezone" in pinned.stdout
    assert "IANA timezone name" in pinned.stdout
    assert "convert_time" not in pinned.stdout
    written = (folder / "mine.tools.json").read_bytes()
    assert foreword("pin", "mine").stderr.endswith("mine.tools.json is current\n")
    assert foreword("pin", "mine", "--check").exit_code == 0
    assert (folder / "mine.tools.json").read_bytes() == written
    sha256 = json.loads(written)["servers"]["time"]["sha256"]
    listed = json.loads(foreword("list", "--format", "json").stdout)
    [mine] = [agent for agent in listed["data"] if agent["name"] == "mine"]
    assert mine["tools"] == [
        {"mcp": "time", "pinned": {"sha256": sha256, "tools": ["time__get_current_time"]}},
        {"agent": "other"},
        {"built_in": "search"},
    ]
    assert f"mcp time: get_current_time (pinned, {sha256[:12]})" in foreword("list").stdout


def test_a_changed_server_fails_the_check_until_it_is_pinned_again(folder: Path) -> None:
    write_agent(folder, "[{mcp: raw}]")
    assert "mcp raw: not pinned" in foreword("list").stdout
    assert foreword("pin", "mine", "--check").exit_code == 1
    assert not (folder / "mine.tools.json").exists()
    assert foreword("pin", "mine").exit_code == 0
    (folder.parent / "description").write_text(" And more.")
    checked = foreword("pin", "mine", "--check")
    assert checked.exit_code == 1
    assert "! 'alpha' has another description" in checked.stdout
    assert foreword("pin", "mine").exit_code == 0
    assert foreword("pin", "mine", "--check").exit_code == 0


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ("[search]", "uses no MCP server"),
        ("[{mcp: other}]", "the settings declare: none, raw, time"),
        ("[{mcp: none}]", "there is no program"),
        ("[{mcp: raw, only: [alpha, omega]}]", "has no tool called omega"),
        ("[{mcp: raw, idempotent: [omega]}]", "has no tool called omega"),
    ],
)
def test_what_cannot_be_pinned_is_one_sentence(folder: Path, tools: str, problem: str) -> None:
    write_agent(folder, tools)
    done = foreword("pin", "mine")
    assert done.exit_code == 2
    assert problem in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_an_agent_that_is_not_there_is_named(folder: Path) -> None:
    write_agent(folder, "[{mcp: raw}]")
    done = foreword("pin", "other")
    assert done.exit_code == 2
    assert "mine" in done.stderr
