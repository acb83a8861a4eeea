"""The workload file: hashed, checked, and the same for the same requests."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import WorkloadError
from bench.workloads import answer_of, make_workload, read_workload, write_workload
from bench.workloads.file import WorkloadRequest, asked, fill_answers


def one(
    request_id: str, text: str = "hi", *, session: str | None = None, turn: int = 0
) -> WorkloadRequest:
    body = {"messages": [{"role": "user", "content": text}]}
    return asked(body, id=request_id, session=session, turn=turn, max_tokens=4)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made = make_workload("small", [one("a"), one("b")], seed=3, parameters={"n": 2})
    write_workload(tmp_path / "w.jsonl", made)
    read = read_workload(tmp_path / "w.jsonl")
    assert read.header == made.header
    assert [bytes(r.body) for r in read.requests] == [bytes(r.body) for r in made.requests]


def test_a_changed_request_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    write_workload(path, make_workload("small", [one("a", "hello")], seed=1, parameters={}))
    path.write_bytes(path.read_bytes().replace(b"hello", b"hallo"))
    with pytest.raises(WorkloadError, match="not those that its header names"):
        read_workload(path)


def test_a_cut_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    write_workload(path, make_workload("small", [one("a"), one("b")], seed=1, parameters={}))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(WorkloadError):
        read_workload(path)


@pytest.mark.parametrize("held", [b"", b"{}\n", b"no json\n", b'{"kind":"other"}\n'])
def test_what_is_no_workload_is_refused(tmp_path: Path, held: bytes) -> None:
    path = tmp_path / "w.jsonl"
    path.write_bytes(held)
    with pytest.raises(WorkloadError, match="line 1"):
        read_workload(path)


def test_the_digest_is_that_of_the_request_lines(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    small = make_workload("small", [one("a")], seed=1, parameters={})
    write_workload(path, small)
    from hashlib import sha256

    _, rest = path.read_bytes().split(b"\n", 1)
    assert sha256(rest).hexdigest() == small.header.sha256


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [one("a"), one("a")],
        [one("a", session="s", turn=1), one("b", session="s", turn=0)],
    ],
)
def test_lists_that_make_no_sense_are_refused(requests: list[WorkloadRequest]) -> None:
    with pytest.raises(WorkloadError):
        make_workload("bad", requests, seed=1, parameters={})


def test_a_mark_is_filled_with_the_answer_and_text_that_looks_like_one_is_not() -> None:
    sly = '{"answer_of":"a"}'
    body = {"messages": [{"role": "user", "content": sly}, answer_of("a")]}
    assert asked(body, id="b", max_tokens=1).needs_answers
    assert not one("c", sly).needs_answers
    filled = fill_answers(body, {"a": "yes"})
    assert [m["content"] for m in filled["messages"]] == [sly, "yes"]
    assert fill_answers(body, {})["messages"][1]["content"] == ""


@given(st.text())
def test_any_text_stands_in_the_body_as_it_was(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert orjson.loads(bytes(one("a", text).body))["messages"][0]["content"] == text
