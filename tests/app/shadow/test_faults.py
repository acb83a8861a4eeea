"""A target that is at fault delays and fails nobody."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.engine_sim import SimulatorThread
from tests.app.shadow.conftest import (
    TEXT,
    chats,
    mirroring,
    order,
    raw_target,
    simulator,
    until,
)

_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
_WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n"
_WORD = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'


def silent() -> Iterator[bytes]:
    while True:
        time.sleep(0.05)
        yield b""


def endless() -> Iterator[bytes]:
    yield _STREAM
    while True:
        yield _WORD * 500


def huge() -> Iterator[bytes]:
    yield _WHOLE
    while True:
        yield b"x" * 65536


def dripping() -> Iterator[bytes]:
    yield _STREAM
    while True:
        yield _WORD
        time.sleep(0.05)


def garbage() -> Iterator[bytes]:
    yield b"\x00\xff nothing of HTTP \r\n\r\n"


def nonsense() -> Iterator[bytes]:
    body = b'{"choices": [7], "usage": "none"}'
    yield b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def nested() -> Iterator[bytes]:
    body = b'{"error":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    yield b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def redirect() -> Iterator[bytes]:
    yield b"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "stream", "reason"),
    [
        (silent, False, "timeout"),
        (silent, True, "timeout"),
        (dripping, True, "timeout"),
        (endless, True, "too_large"),
        (huge, False, "too_large"),
        (garbage, False, "malformed"),
        (nonsense, False, "malformed"),
        (nested, False, "malformed"),
        (redirect, False, "refused"),
    ],
)
def test_whatever_the_target_does_clients_get_their_answers_at_once(
    live: SimulatorThread, tmp_path: Path, answer: object, stream: bool, reason: str
) -> None:
    """More requests than copies can be under way or wait, while the target misbehaves."""
    assert callable(answer)
    limits = {"timeout_s": 1 if reason == "timeout" else 60, "concurrency": 2, "queued": 2}
    with raw_target(answer) as target, mirroring(tmp_path, live, target.url, **limits) as site:
        for number in range(8):
            asked = site.post(f"{number} {TEXT}", stream=stream)
            assert asked.status_code == 200
            assert "error" not in asked.text
        until(lambda: sum(ended(site.shadow()["since_start"])) == 8)
        told = site.shadow()
        assert told["errors"] == {reason: told["requests"]}
        assert told["since_start"]["failed"] == told["requests"] >= 1
        assert httpx.get(f"{site.url}/readyz", trust_env=False).status_code == 200


def ended(since_start: dict[str, int]) -> list[int]:
    return [since_start[name] for name in ("compared", "failed", "dropped")]


@pytest.mark.parametrize("stream", [False, True])
def test_a_target_that_is_gone_or_says_500(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path, stream: bool
) -> None:
    order(second, "error", status=500)
    with mirroring(tmp_path / "a", live, second.url) as site:
        assert site.post(TEXT, stream=stream).status_code == 200
        assert site.settled(1, failed=1)["errors"] == {"server_error": 1}
    with mirroring(tmp_path / "b", live, "http://127.0.0.1:9") as site:
        assert site.post(TEXT, stream=stream).status_code == 200
        assert site.settled(1, failed=1)["errors"] == {"unreachable": 1}


def test_a_stream_that_breaks_off_is_a_failure(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    order(second, "drop", after_chunks=2)
    with mirroring(tmp_path, live, second.url) as site:
        assert site.post(TEXT, stream=True).status_code == 200
        assert site.settled(1, failed=1)["errors"] == {"unreachable": 1}


def test_nothing_is_sent_before_the_answer_has_ended(
    second: SimulatorThread, tokenizer_folder: Path, tmp_path: Path
) -> None:
    """While the client still gets its stream, the target has heard nothing."""
    with (
        simulator(tokenizer_folder, speedup=1) as slow,
        mirroring(tmp_path, slow, second.url) as site,
    ):
        before = chats(second)
        body = {
            "model": "default", "messages": [{"role": "user", "content": TEXT}],
            "max_tokens": 40, "temperature": 0, "stream": True,
        }  # fmt: skip
        url = f"{site.url}/v1/chat/completions"
        with httpx.stream("POST", url, json=body, trust_env=False, timeout=30) as answer:
            pieces = 0
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    pieces += 1
                    if pieces in (1, 20):
                        assert chats(second) == before
                        assert site.shadow()["since_start"]["waiting"] == 0
        told = site.settled(1, compared=1)
        assert told["answers"]["equal"] == 1
        # The target's clock is fifty times as fast.
        assert told["e2e"]["ratio"] < 1


def test_what_the_queue_has_no_room_for_is_dropped_and_counted(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    order(second, "hang")
    limits = {"concurrency": 1, "queued": 2, "timeout_s": 60}
    with mirroring(tmp_path, live, second.url, **limits) as site:
        for number in range(8):
            began = time.monotonic()
            site.ask(f"{number} {TEXT}")
            assert time.monotonic() - began < 45  # the target takes a minute
        until(lambda: site.shadow()["since_start"]["dropped"] == 5)
        assert site.shadow()["since_start"]["waiting"] == 2
        page = httpx.get(f"{site.url}/metrics", trust_env=False).text
        assert 'foreword_shadow_requests_total{outcome="dropped"} 5' in page
        assert "foreword_shadow_queue_depth 2" in page


def test_large_prompts_are_bounded_by_their_bytes(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    order(second, "hang")
    limits = {"concurrency": 1, "queued": 50, "queued_mb": 1, "timeout_s": 60}
    with mirroring(tmp_path, live, second.url, **limits) as site:
        schema = {"type": "object", "description": "d" * 60_000}
        form = {"type": "json_schema", "json_schema": {"name": "f", "schema": schema}}
        for number in range(25):
            site.ask(f"{number}", response_format=form)
        until(lambda: site.shadow()["since_start"]["dropped"] >= 1)


def test_a_gateway_that_ends_drops_what_waits(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    """It doesn't wait for the target."""
    order(second, "hang")
    with mirroring(tmp_path, live, second.url, timeout_s=600, concurrency=1) as site:
        for number in range(4):
            site.ask(f"{number} {TEXT}")
        began = time.monotonic()
    assert time.monotonic() - began < 60


def test_clients_that_ask_together_wait_no_longer(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    order(second, "delay", seconds=3.0)
    with mirroring(tmp_path, live, second.url) as site:
        durations: list[float] = []

        def ask(number: int) -> None:
            began = time.monotonic()
            site.ask(f"{number} {TEXT}")
            durations.append(time.monotonic() - began)

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(durations) == 8
        told = site.settled(8, compared=8)
        assert told["e2e"]["shadow_p50_s"] > 3
        assert told["e2e"]["live_p50_s"] < told["e2e"]["shadow_p50_s"]


def test_a_full_disk_loses_figures_and_nothing_else(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    (tmp_path / "shadow").write_text("in the folder's way")
    with mirroring(tmp_path, live, second.url) as site:
        site.ask(TEXT)
        until(lambda: "foreword_shadow_lost_rows 1" in page(site.url))
        site.ask(TEXT)


def page(url: str) -> str:
    return httpx.get(f"{url}/metrics", trust_env=False).text
