"""`foreword chat`, with a pipe as stdin."""

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner, Result

from app.commands.chat import chat, reuse_line
from tests.app.agents.conftest import Harbour, Opens
from tests.app.agents.notes import calls


def run(url: str, typed: str, *options: str) -> Result:
    return CliRunner().invoke(chat, ["--url", url, *options], input=typed)


def test_it_streams_shows_calls_and_tells_what_was_re_used(harbour: Opens) -> None:
    with harbour((calls(("write", "one")), calls(("look", "two")))) as here:
        told = run(here.url, "Write one.\n\nAnd now?\n", "--agent", "writer")
        assert told.exit_code == 0, told.output
        first, *aside = told.stderr.splitlines()
        talk = first.removeprefix("conversation ")
        said = [
            item.content[0].text  # type: ignore[union-attr]
            for item in here.client.conversations.items.list(talk, order="asc")
            if item.type == "message"
        ]
        further = run(here.url, "More?\n", "--conversation", talk, "--agent", "writer")
    assert further.stderr.splitlines()[0] == f"conversation {talk}"
    assert [said[0], said[2]] == ["Write one.", "And now?"]
    assert told.stdout.splitlines() == [said[1], said[3]]
    assert aside[0] == '→ write {"line": "one"}'
    assert aside[1].startswith("← write did")
    shares = [line for line in aside if line.startswith("re-used ")]
    assert len(shares) == 2
    assert shares[0].endswith(", 3 steps")


def test_a_model_without_an_agent_is_talked_to_as_well(harbour: Opens) -> None:
    with harbour(()) as here:
        told = run(here.url, "Hello?\n", "--max-tokens", "8")
        refused = run(here.url, "Hello?\n", "--agent", "nobody")
    assert told.exit_code == 0, told.output
    assert told.stdout.strip()
    assert (refused.exit_code, "no agent 'nobody'" in refused.stderr) == (2, True)


def test_a_call_that_nobody_knows_of_is_told_where_nobody_can_be_asked(harbour: Opens) -> None:
    with harbour((calls(("write", "vanish")),)) as here:
        told = run(here.url, "Write.\n", "--agent", "writer")
    assert told.exit_code == 2
    assert "nobody knows whether it was made; POST /foreword/agents/runs/" in told.stderr


def test_stdin_that_is_no_text_is_told_and_nothing_is_left(harbour: Opens) -> None:
    with harbour(()) as here:
        talks = conversations(here)
        for typed, options in (
            (b"hi\xff\n", ()),
            (b"", ()),
            (b"\n \n", ()),
            (b"Hello?\n", ("--agent", "nobody")),
            (b"Hello?\n", ("--agent", "researcher", "--collection", "nosuch")),
            (b"Hello?\n", ("--model", "gpt-unknown")),
            (b"Hello?\n", ("--model", os.fsdecode(b"\xff"))),
        ):
            told = CliRunner().invoke(chat, ["--url", here.url, *options], input=typed)
            refused = bool(typed.strip())
            assert told.exit_code == (2 if refused else 0), told.output
            assert told.stdout == ""
            assert len(told.stderr.splitlines()) == refused, told.stderr
            assert not isinstance(told.exception, UnicodeError)
            assert conversations(here) == talks


def test_what_was_said_before_bad_bytes_stays(harbour: Opens) -> None:
    """As any terminal's locale decodes it: strictly, or by letting bytes through."""
    with harbour(()) as here:
        begin = (sys.executable, "-c", "from app.cli import main; main()")
        command = [*begin, "chat", "--url", here.url, "--max-tokens", "4"]
        for errors in ("strict", "surrogateescape"):
            done = subprocess.run(
                command,
                input=b"Hello?\nhi\xff\n",
                capture_output=True,
                env={**os.environ, "PYTHONIOENCODING": f"utf-8:{errors}"},
                timeout=120,
            )
            assert done.returncode == 2, done.stderr
            assert done.stderr.decode().splitlines()[-1] == "Error: line 2 of stdin isn't UTF-8"
            assert done.stdout.strip()


def conversations(here: Harbour) -> list[str]:
    return [each["id"] for each in here.http.get("/foreword/conversations").json()["data"]]


def test_documents_belong_to_an_agent() -> None:
    told = CliRunner().invoke(chat, ["--collection", "c", "--url", "http://127.0.0.1:9"])
    assert told.exit_code == click.UsageError.exit_code


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ({"prompt_tokens": 1000, "cached_tokens": 990}, "re-used 990 of 1,000 prompt tokens"),
        ({"prompt_tokens": 0, "cached_tokens": 0}, "re-used 0 of 0 prompt tokens (0 %)"),
        ({"prompt_tokens": 7, "cached_tokens": None, "steps": [{}, {}]}, "re-used: unknown, 2"),
        ({}, "re-used: unknown"),
    ],
)
def test_what_isnt_known_is_said_to_be_unknown(block: dict[str, object], line: str) -> None:
    assert reuse_line(block).startswith(line)
