"""What the fault suite takes for answers, errors, losses, and faults of the gateway."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from bench.faults.catalogue import ENGINE_GONE, FAULTS
from bench.faults.judge import Times, Verdict, judge, rows_due
from bench.faults.machine import build_clock, full_disk, small_disk
from bench.faults.outcomes import HUNG_S, LIMIT_S, Asked, Kind, Outcome, Read, read_body
from bench.faults.processes import Child, signal_one, signal_tree, tree
from bench.faults.report import page_of

ERROR = {"message": "it is away", "type": "server_error", "param": None, "code": "engine_gone"}


def refusal(**fields: object) -> bytes:
    return orjson.dumps({"error": ERROR | fields})


def stream(*parts: dict[str, object], end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(b"data: " + orjson.dumps(part) + b"\n\n" for part in parts) + end


@pytest.mark.parametrize(
    ("kind", "status", "body", "read"),
    [
        (Kind.CHAT, 200, b'{"choices": []}', Read(Outcome.ANSWERED)),
        (Kind.CHAT, 200, b'{"object": "response"}', Read(Outcome.WRONG)),
        (Kind.CHAT, 502, refusal(), Read(Outcome.REFUSED, "engine_gone")),
        (Kind.CHAT, 502, refusal(message=""), Read(Outcome.WRONG)),
        (Kind.CHAT, 500, b"Internal Server Error", Read(Outcome.WRONG)),
        (Kind.CHAT, 500, b'{"error": {"message": "half"}}', Read(Outcome.WRONG)),
        (Kind.CHAT_STREAM, 200, stream({"choices": []}), Read(Outcome.ANSWERED)),
        (Kind.CHAT_STREAM, 200, stream({"choices": []}, end=b""), Read(Outcome.LOST)),
        (
            Kind.CHAT_STREAM, 200, stream({"choices": []}, {"error": ERROR}, end=b""),
            Read(Outcome.BROKEN, "engine_gone"),
        ),
        (Kind.SEARCH, 200, b'{"output": []}', Read(Outcome.ANSWERED)),
        (Kind.SEARCH_STREAM, 200, stream({"type": "response.completed"}), Read(Outcome.ANSWERED)),
        (Kind.SEARCH_STREAM, 200, stream({"type": "response.created"}, end=b""),
         Read(Outcome.LOST)),
        (
            Kind.SEARCH_STREAM, 200,
            stream({"type": "response.failed", "response": {"error": ERROR}}, end=b""),
            Read(Outcome.BROKEN, "engine_gone"),
        ),
    ],
)  # fmt: skip
def test_a_body_is_an_answer_an_error_or_neither(
    kind: Kind, status: int, body: bytes, read: Read
) -> None:
    assert read_body(kind, status, body) == read


def asked(outcome: Outcome, code: str | None = None, *, took_s: float = 1.0, name: str) -> Asked:
    return Asked(
        kind=Kind.CHAT,
        tenant="acme",
        began=100.0,
        ended=100.0 + took_s,
        outcome=outcome,
        status=200 if outcome is Outcome.ANSWERED else 502,
        code=code,
        request_id=name,
        silent_s=took_s,
    )


ANSWERED = asked(Outcome.ANSWERED, name="a")
GONE = asked(Outcome.REFUSED, "engine_unreachable", name="b")


def judged(*all_asked: Asked, rows: set[str] | None = None, whole: float | None = 103.0) -> Verdict:
    return judge(
        "engine-killed",
        "SIGKILL",
        all_asked,
        codes=ENGINE_GONE,
        times=Times(struck=99.0, mended=101.0, whole=whole),
        hit={"streaming": 1, "waiting": 1},
        rows={one.request_id or "" for one in all_asked} if rows is None else rows,
        dropped=0,
        failed_over=1,
        problems=(),
    )


def test_errors_that_are_told_in_time_are_as_it_should_be() -> None:
    verdict = judged(ANSWERED, GONE)
    assert verdict.good
    assert verdict.failed == {"engine_unreachable": 1}
    assert (verdict.whole_s, verdict.failing_s) == (2.0, 2.0)


@pytest.mark.parametrize(
    "bad",
    [
        asked(Outcome.LOST, name="c"),
        asked(Outcome.WRONG, name="c"),
        asked(Outcome.HUNG, took_s=HUNG_S, name="c"),
        asked(Outcome.REFUSED, "internal_error", name="c"),
        asked(Outcome.REFUSED, "engine_timeout", took_s=LIMIT_S + 1, name="c"),
    ],
)
def test_what_no_client_should_meet_is_a_problem(bad: Asked) -> None:
    assert not judged(ANSWERED, bad).good


def test_a_request_without_a_row_is_a_problem_unless_it_was_refused_before() -> None:
    queued = asked(Outcome.REFUSED, "queue_full", name="d")
    assert rows_due([ANSWERED, GONE, queued]) == {"a", "b"}
    assert judged(ANSWERED, GONE, rows={"a"}).rows_missing == 1
    assert not judged(ANSWERED, GONE, rows={"a"}).good


def test_a_deployment_that_is_never_whole_again_is_a_problem() -> None:
    assert not judged(ANSWERED, whole=None).good


def test_a_page_has_a_row_for_each_fault_and_says_what_was_wrong() -> None:
    verdict = judged(ANSWERED, asked(Outcome.LOST, name="c"))
    run = {
        "title": "SQLite",
        "verdicts": [verdict.as_json()],
        "skipped": [{"name": "clock-jumps", "why": "no C compiler is here"}],
    }
    environment = {"commit": "abc", "cores": 2}
    page = page_of({"command": "x", "environment": environment, "runs": [run]})
    assert "| engine-killed: SIGKILL | 1 + 1 | 2 | 1 | 0 |" in page
    assert "- clock-jumps: not done, no C compiler is here" in page
    assert "- **engine-killed**: chat: lost" in page


def test_a_clock_is_set_for_those_who_run_with_it_and_for_nobody_else(tmp_path: Path) -> None:
    clock = build_clock(tmp_path)
    if clock is None:
        pytest.skip("no C compiler is here")
    clock.set(86_400)
    command = [sys.executable, "-c", "import time; print(time.time(), time.monotonic())"]
    told, here = (
        [float(part) for part in subprocess.check_output(command, env=env, text=True).split()]
        for env in ({**os.environ, **clock.env}, dict(os.environ))
    )
    assert 86_000 < told[0] - here[0] < 86_500
    assert abs(told[1] - here[1]) < 60


def test_a_full_disk_has_no_room_until_it_is_over(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as small:
        if not small:
            pytest.skip("mounting isn't allowed here")
        file = tmp_path / "disk" / "file"
        with full_disk(tmp_path / "disk"), pytest.raises(OSError, match="No space"):
            file.write_bytes(b"a" * 2**20)
        file.write_bytes(b"a" * 2**19)


def test_a_process_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    child = Child(["bash", "-c", "sleep 60 & sleep 60 & wait"], tmp_path, "child", env=os.environ)
    child.start()
    pid = child.pid
    assert pid is not None
    assert eventually(lambda: len(tree(pid)) == 3)
    everything = tree(pid)
    try:
        signal_tree(pid, signal.SIGSTOP)
        assert eventually(lambda: {state(one) for one in everything} == {"T"})
        signal_tree(pid, signal.SIGKILL)
        child.stop()
        assert child.pid is None
        assert eventually(lambda: all(state(one) in (None, "Z") for one in everything))
    finally:
        for one in everything:
            signal_one(one, signal.SIGKILL)


def state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def eventually(condition: Callable[[], bool], within_s: float = 60.0) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_each_fault_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
