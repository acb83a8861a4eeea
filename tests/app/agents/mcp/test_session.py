"""Sessions with real servers: what passes, what is bounded, and what is known when one dies."""

import json
import os
import signal
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from app.agents.mcp.errors import (
    McpAnswerError,
    McpOutcomeUnknownError,
    McpToolsError,
    McpUnavailableError,
)
from app.errors import InvalidSettingError
from app.settings import McpServerSettings
from tests.app.agents.mcp.conftest import opened, raw, sdk, until

pytestmark = pytest.mark.anyio
_LONG_S = 60.0


async def test_results_come_as_they_are(tmp_path: Path) -> None:
    """Texts byte for byte, other content by its name, errors as errors."""
    async with opened(tmp_path, kitchen=sdk()) as servers:
        session = servers.session("kitchen")
        text = ' "ä\u0000\r\n<|im_end|>\U0001f469\u200d\U0001f680 '
        said = await session.call("echo", {"text": text}, within_s=_LONG_S)
        assert (said.text, said.is_error) == (text, False)
        page = await session.call("page", {}, within_s=_LONG_S)
        note = "[resource, text/plain: note://1]\nof the note\n"
        assert page.text == f" first\r\n\n<|im_end|>\n{note}"
        picture = await session.call("picture", {}, within_s=_LONG_S)
        assert picture.text == "[image, image/png, 8 bytes: not shown]"
        failed = await session.call("fail", {"why": "because"}, within_s=_LONG_S)
        assert failed.is_error
        assert "because" in failed.text
        given = await session.call("given", {"value": {"a": None, "b": "c"}}, within_s=_LONG_S)
        assert given.text == "{'a': None, 'b': 'c'}"


async def test_a_child_sees_only_the_named_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HMAC_SECRET", "of the gateway")
    (tmp_path / "key").write_text("from a file\n")
    named = {"API_TOKEN": "env:TOKEN", "KEY": f"file:{tmp_path / 'key'}"}
    async with opened(tmp_path, raw=raw(tmp_path, env_from=named)) as servers:
        said = await servers.session("raw").call("alpha", {"a": "environment"}, within_s=_LONG_S)
    seen = json.loads(said.text)
    seen.pop("LC_CTYPE", None)  # Python itself sets it where there is no locale
    assert seen == {"API_TOKEN": "t0ken", "KEY": "from a file"}


@pytest.mark.parametrize("named", ["env:NOT_SET", "file:/not/there"])
async def test_a_missing_secret_is_found_before_anything_starts(tmp_path: Path, named: str) -> None:
    with pytest.raises(InvalidSettingError, match="MCP__SERVERS__KITCHEN__ENV_FROM__KEY"):
        async with opened(tmp_path, kitchen=sdk(env_from={"KEY": named})):
            pass


async def test_one_child_serves_all_calls_and_ends_with_the_session(tmp_path: Path) -> None:
    async with opened(tmp_path, raw=raw(tmp_path)) as servers:
        session = servers.session("raw")
        assert not (tmp_path / "starts").exists()
        results: list[str] = []

        async def one(number: int) -> None:
            said = await session.call("alpha", {"b": number}, within_s=_LONG_S)
            results.append(said.text)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)
        assert sorted(results) == sorted(f'alpha {{"b": {number}}}' for number in range(20))
        [pid] = _starts(tmp_path)
    assert not _lives(pid)


async def test_a_child_that_will_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    async with opened(tmp_path, raw=raw(tmp_path, "stays")) as servers:
        await servers.session("raw").call("alpha", {}, within_s=_LONG_S)
        [pid] = _starts(tmp_path)
        grandchild = int((tmp_path / "child").read_text())
    assert not _lives(pid)
    assert not _lives(grandchild)


async def test_a_server_that_dies_in_a_call_leaves_the_outcome_unknown_and_is_started_again(
    tmp_path: Path,
) -> None:
    """And the call isn't made twice."""
    async with opened(tmp_path, raw=raw(tmp_path)) as servers:
        session = servers.session("raw")
        with pytest.raises(McpOutcomeUnknownError):
            await session.call("alpha", {"a": "end"}, within_s=_LONG_S)
        assert (await session.call("beta", {}, within_s=_LONG_S)).text == "beta {}"
    assert (tmp_path / "calls").read_text() == "alpha\nbeta\n"


async def test_a_server_killed_while_nobody_calls_is_started_again(tmp_path: Path) -> None:
    async with opened(tmp_path, raw=raw(tmp_path)) as servers:
        session = servers.session("raw")
        first = await session.listed()
        [pid] = _starts(tmp_path)
        with capture_logs() as lines:
            os.kill(pid, signal.SIGKILL)
            await until(lambda: any(line["event"] == "mcp_server_ended" for line in lines))
        assert lines[0]["status"] == 128 + signal.SIGKILL
        assert await session.listed() == first
        assert len(_starts(tmp_path)) == 2


async def test_a_server_that_answers_nothing_any_more_is_taken_for_dead(tmp_path: Path) -> None:
    async with opened(tmp_path, raw=raw(tmp_path)) as servers:
        session = servers.session("raw")
        await session.listed()
        for _ in range(3):
            with pytest.raises(McpOutcomeUnknownError):
                await session.call("alpha", {"a": "hang"}, within_s=1.0)
        assert (await session.call("beta", {}, within_s=_LONG_S)).text == "beta {}"
        assert len(_starts(tmp_path)) == 2


async def test_too_large_an_answer_is_dropped_and_costs_that_call_alone(tmp_path: Path) -> None:
    settings = raw(tmp_path, max_message_bytes=100_000, max_result_bytes=1_000)
    async with opened(tmp_path, raw=settings) as servers:
        session = servers.session("raw")
        with pytest.raises(McpAnswerError, match=r"10,000,\d+ bytes, more than are taken"):
            await session.call("alpha", {"a": "huge"}, within_s=_LONG_S)
        assert (await session.call("alpha", {}, within_s=_LONG_S)).text == "alpha {}"
        assert len(_starts(tmp_path)) == 1
        said = await session.call("alpha", {"a": "z" * 1_000}, within_s=_LONG_S)
        assert said.is_error
        assert "larger than the 1,000 that are taken" in said.text


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("garbage", "no result of a call"),
        ("error", "error -32603: no\x1b"),
        ("input", "no result of a call"),
    ],
)
async def test_answers_that_are_none_are_said_to_be(
    tmp_path: Path, what: str, problem: str
) -> None:
    async with opened(tmp_path, raw=raw(tmp_path)) as servers:
        session = servers.session("raw")
        with pytest.raises(McpAnswerError, match=problem):
            await session.call("alpha", {"a": what}, within_s=_LONG_S)
        said = await session.call("alpha", {"a": "print"}, within_s=_LONG_S)
        assert said.text == 'alpha {"a": "print"}'


async def test_a_flood_of_messages_is_read_in_time(tmp_path: Path) -> None:
    """Not at once: other things are done on the loop as well."""
    async with opened(tmp_path, raw=raw(tmp_path)) as servers:
        said = await servers.session("raw").call("alpha", {"a": "flood"}, within_s=_LONG_S)
    assert said.text == 'alpha {"a": "flood"}'


async def test_a_list_without_end_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, raw=raw(tmp_path, "endless")) as servers:
        with pytest.raises(McpToolsError, match="doesn't end"):
            await servers.session("raw").listed()


async def test_a_server_that_does_not_start_is_said_why_and_not_started_at_once_again(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, raw=raw(tmp_path, "broken")) as servers:
        session = servers.session("raw")
        with pytest.raises(McpUnavailableError, match="ended with status 1") as refused:
            await session.listed()
        assert refused.value.said is not None
        assert "the disk is on fire" in refused.value.said
        with pytest.raises(McpUnavailableError, match="just now"):
            await session.listed()
        assert len(_starts(tmp_path)) == 1


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    async with opened(tmp_path, raw=raw(tmp_path, "mute", start_s=0.3)) as servers:
        with pytest.raises(McpUnavailableError, match=r"wasn't ready in 0\.3 s"):
            await servers.session("raw").listed()
    for pid in _starts(tmp_path) if (tmp_path / "starts").exists() else []:
        assert not _lives(pid)


async def test_a_program_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    settings = raw(tmp_path).model_copy(update={"command": "no-such-program"})
    async with opened(tmp_path, raw=settings) as servers:
        with pytest.raises(McpUnavailableError, match="no program 'no-such-program'"):
            await servers.session("raw").listed()


def _starts(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "starts").read_text().split()]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_server_s_state_can_be_seen(tmp_path: Path) -> None:
    """Nobody needed it, it is open, it broke off; and one that can't be opened is down."""
    async with opened(tmp_path, raw=raw(tmp_path), none=McpServerSettings(command="/no/such")) as (
        servers
    ):
        assert servers.states() == {"raw": "idle", "none": "idle"}
        await servers.session("raw").call("alpha", {}, within_s=_LONG_S)
        with pytest.raises(McpUnavailableError):
            await servers.session("none").call("alpha", {}, within_s=_LONG_S)
        assert servers.states() == {"raw": "open", "none": "down"}
        await until(lambda: servers.failures() == {"raw": 0, "none": 1})
        [pid] = _starts(tmp_path)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: servers.states()["raw"] == "idle")
        await until(lambda: servers.failures() == {"raw": 1, "none": 1})
        await servers.session("raw").call("alpha", {}, within_s=_LONG_S)
        assert servers.states()["raw"] == "open"
    assert servers.failures() == {"raw": 1, "none": 1}
