"""Whole logs: files, gzip, standard input, bad lines, and what the outputs say."""

import codecs
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cache.errors import RequestLogError
from cache.request_log import (
    LogOptions,
    NoRequestError,
    diagnose,
    lint_log,
    render_text,
    to_json,
)
from tests.cache.request_log.logs import CLEAN, FAULTS, to_lines


@pytest.fixture
def data() -> bytes:
    """A log with a clock in its prompts."""
    return b"".join(to_lines(FAULTS["L01"][0]()))


def test_plain_and_compressed_files_give_the_same(data: bytes, tmp_path: Path) -> None:
    """Gzip is told by its bytes, not its name."""
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data))
    rates = [lint_log(LogOptions(path=path)).rates for path in (plain, packed)]
    assert rates[0] == rates[1]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input(data: bytes, pack: Callable[[bytes], bytes]) -> None:
    """`-` reads what is piped in, plain or compressed."""
    program = (
        "from cache.request_log import STANDARD_INPUT, LogOptions, lint_log\n"
        "print(lint_log(LogOptions(path=STANDARD_INPUT)).requests)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=pack(data), capture_output=True, check=True, timeout=60)
    assert done.stdout.strip() == b"40"


def test_a_missing_or_damaged_file_is_one_clear_error(data: bytes, tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(RequestLogError, match=r"no\.jsonl"):
        lint_log(LogOptions(path=tmp_path / "no.jsonl"))
    damaged = tmp_path / "cut.gz"
    damaged.write_bytes(gzip.compress(data)[:-20])
    with pytest.raises(RequestLogError, match="damaged"):
        lint_log(LogOptions(path=damaged))


@pytest.mark.parametrize("data", [b"", b"\n\n", b'[\n  {"messages": []}\n]\n', b"PK\x03\x04\n"])
def test_a_file_without_a_request_is_no_clean_log(data: bytes, tmp_path: Path) -> None:
    """A pretty-printed array, an empty file or the wrong one is said to be that."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(data)
    with pytest.raises(NoRequestError, match="no request could be read from") as raised:
        lint_log(LogOptions(path=path))
    assert str(raised.value).endswith("one JSON object a line is wanted")


def test_a_byte_order_mark_is_skipped(data: bytes) -> None:
    """The first request counts, and places are still those of the file."""
    marked = codecs.BOM_UTF8 + data
    diagnosis = diagnose(marked.splitlines(keepends=True), LogOptions())
    assert (diagnosis.requests, diagnosis.bad_lines) == (40, 0)
    (place,) = [finding.place for finding in diagnosis.findings]
    assert marked[place.start : place.stop] == data.splitlines()[place.line - 1]


def test_bad_lines_are_counted_and_named_but_not_fatal() -> None:
    """The rest of the log is diagnosed."""
    lines = to_lines(CLEAN["clean_single"]())
    lines[3:3] = [b"{broken\n", b"\n", b'{"level": "info"}\n']
    diagnosis = diagnose(lines, LogOptions())
    assert diagnosis.requests == 40
    assert diagnosis.bad_lines == 2
    assert [bad.line for bad in diagnosis.bad_examples] == [4, 6]
    assert "hold no request: 2 lines, the first is" in render_text(diagnosis)


def test_an_empty_log_is_no_error() -> None:
    """Rates are unknown, not zero."""
    diagnosis = diagnose([], LogOptions())
    assert diagnosis.requests == 0
    assert diagnosis.rates.ideal is None
    assert "No findings." in render_text(diagnosis)


def test_the_places_of_findings_are_bytes_of_the_log(data: bytes) -> None:
    """A finding's place is the line of the request that shows it."""
    (finding,) = diagnose(data.splitlines(keepends=True), LogOptions()).findings
    line = data[finding.place.start : finding.place.stop]
    assert line == data.splitlines()[finding.place.line - 1]


def test_json_is_stable_and_says_whether_tokens_are_exact(data: bytes) -> None:
    """Equal logs give equal bytes."""
    lines = data.splitlines(keepends=True)
    one, other = (json.dumps(to_json(diagnose(lines, LogOptions()))) for _ in range(2))
    assert one == other
    report = json.loads(one)
    assert report["schema_version"] == 1
    assert report["tokens"] == "estimated"
    assert report["groups"][0]["codes"] == ["FW102"]


def test_text_says_that_tokens_are_estimated_and_shows_the_curve(data: bytes) -> None:
    """≈ at every count."""
    text = render_text(diagnose(data.splitlines(keepends=True), LogOptions()))
    assert "≈" in text
    assert "room for tokens" in text
    assert "FW102" in text


def test_more_room_never_lowers_the_hit_rate() -> None:
    """And all the room there is gives the ideal."""
    diagnosis = diagnose(to_lines(CLEAN["clean_conversations"]()), LogOptions())
    rates = [point.hit_rate for point in diagnosis.curve]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(diagnosis.rates.ideal)


def test_a_previous_response_stands_for_its_conversation() -> None:
    """Where the log holds it, the earlier turns count as part of the prompt.

    Its instructions do not: those of the response's own request stand first.
    """
    answer = {"type": "message", "role": "assistant", "content": "It is open."}
    rules = "You know the shop. " * 40
    first = {
        "request": {"instructions": rules, "input": "Is it open?"},
        "response": {"id": "resp_1", "output": [answer]},
    }
    second = {"request": {"input": "Until when?", "previous_response_id": "resp_1"}}
    same = {"request": {**second["request"], "instructions": rules}}
    whole, bare = (
        diagnose([json.dumps(line).encode() for line in (first, later)], LogOptions())
        for later in (same, second)
    )
    assert whole.groups[0].conversations == 1
    assert whole.rates.cached_tokens > 0
    assert bare.rates.cached_tokens == 0
    assert whole.rates.prompt_tokens < 2.5 * len(rules) / 4
    assert bare.rates.prompt_tokens < 1.5 * len(rules) / 4
