"""Runs against simulated engines and against servers that misbehave."""

import asyncio
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from bench.errors import RunFolderTakenError, TargetError
from bench.load.run import Plan, run_plan
from bench.load.target import Control
from bench.load.validity import Bounds
from bench.metrics import summarise_phases
from bench.run_folder import Load, RequestLine, read_run
from bench.soak.model_folder import write_model_folder
from bench.workloads import Workload, english_words, make_workload, write_workload
from bench.workloads.shared_prefix import SharedPrefix, shared_prefix
from tests.bench.load.conftest import serving

PlanFor = Callable[..., Plan]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """A simulated engine that computes fast."""
    config = SimulatorConfig(
        model_path=write_model_folder(tmp_path_factory.mktemp("model")),
        served_model_name="sim",
        capacity_tokens=200_000,
        clock=ClockConfig(speedup=20),
    )
    with SimulatorThread(config) as running:
        yield running


def test_a_closed_run_leaves_its_folder(engine: SimulatorThread, plan_for: PlanFor) -> None:
    plan = plan_for(engine.url, flush=True, passes=2, warmup=1, labels={"arm": "A"})
    facts, lines = run_plan(plan)
    read = read_run(plan.folder)
    assert read.facts == facts
    assert list(read.requests) == lines
    assert [line.phase for line in lines] == ["cold"] * 12 + ["warm"] * 12
    assert [line.id for line in lines[:12]] == [r.id for r in plan.workload.requests]
    assert all(line.ok and line.output_tokens == 4 for line in lines)
    assert (facts.target.kind, facts.target.simulated, facts.model) == ("sglang", True, "sim")
    assert facts.workload.sha256 == plan.workload.header.sha256
    assert facts.engine is not None
    assert facts.engine.memory["max_total_num_tokens"] == 200_000
    assert facts.labels == {"arm": "A"}
    assert facts.generator in ("real-time", "ordinary")
    # The engine's own counters say the same as its answers.
    assert facts.counted is not None
    assert facts.counted.requests == 24
    assert facts.counted.prompt_tokens == sum(line.prompt_tokens or 0 for line in lines)
    assert facts.counted.cached_tokens == sum(line.cached_tokens or 0 for line in lines)


def test_cold_and_warm_differ_as_the_cache_does(engine: SimulatorThread, plan_for: PlanFor) -> None:
    cold, warm = summarise_phases(run_plan(plan_for(engine.url, flush=True, passes=2))[1])
    assert cold.hits.rate is not None
    assert warm.hits.rate is not None
    assert cold.hits.rate < warm.hits.rate
    assert warm.hits.rate > 0.8


def test_times_are_in_their_order(engine: SimulatorThread, plan_for: PlanFor) -> None:
    _, lines = run_plan(plan_for(engine.url, load=Load(kind="poisson", rate_per_s=40)))
    for line in lines:
        times = (line.scheduled_s, line.sent_s, line.first_token_s, line.last_token_s, line.done_s)
        known = [at for at in times if at is not None]
        assert len(known) == 5
        assert known == sorted(known)
        assert line.chunk_s[0] == 0.0
        assert list(line.chunk_s) == sorted(line.chunk_s)


def test_turns_wait_for_the_answers_that_they_hold(
    engine: SimulatorThread, plan_for: PlanFor
) -> None:
    spec = SharedPrefix(
        num_groups=2, prompts_per_group=2, num_turns=3, system_prompt_len=40, question_len=5,
        output_len=16,
    )  # fmt: skip
    made = make_workload("turns", shared_prefix(spec, english_words(), 1), seed=1, parameters={})
    plan = plan_for(engine.url, workload=made, load=Load(kind="poisson", rate_per_s=50), flush=True)
    _, lines = run_plan(plan)
    sessions: dict[str | None, list[RequestLine]] = {}
    for line in lines:
        sessions.setdefault(line.session, []).append(line)
    for turns in sessions.values():
        for earlier, later in pairwise(turns):
            assert earlier.done_s is not None
            assert later.sent_s is not None
            assert later.sent_s >= earlier.done_s
            # Prompt and answer of the turn before are in the cache, to whole pages of 16.
            assert earlier.prompt_tokens is not None
            assert later.cached_tokens is not None
            assert later.cached_tokens > earlier.prompt_tokens - 16


def test_no_more_than_so_many_at_a_time(engine: SimulatorThread, plan_for: PlanFor) -> None:
    load = Load(kind="constant", rate_per_s=1000, concurrency=2)
    _, lines = run_plan(plan_for(engine.url, load=load))
    events = sorted(
        [(line.sent_s or 0, 1) for line in lines] + [(line.done_s or 0, -1) for line in lines]
    )
    running = most = 0
    for _, step in events:
        running += step
        most = max(most, running)
    assert most <= 2


def test_a_trace_is_sent_at_its_own_times(engine: SimulatorThread, plan_for: PlanFor) -> None:
    plan = plan_for(engine.url)
    timed = [
        msgspec.structs.replace(request, at_s=number * 0.1)
        for number, request in enumerate(plan.workload.requests)
    ]
    made = make_workload("timed", timed, seed=1, parameters={})
    _, lines = run_plan(plan_for(engine.url, workload=made, load=Load(kind="trace", speedup=4)))
    first = lines[0].scheduled_s or 0.0
    for number, line in enumerate(lines):
        assert (line.scheduled_s or 0.0) - first == pytest.approx(number * 0.025, abs=1e-6)


def test_a_folder_with_a_run_is_not_written_over(
    engine: SimulatorThread, plan_for: PlanFor
) -> None:
    run_plan(plan_for(engine.url))
    with pytest.raises(RunFolderTakenError, match="name another folder"):
        run_plan(plan_for(engine.url))


def test_what_the_engine_refuses_fails_and_the_run_does_not_count(
    engine: SimulatorThread, plan_for: PlanFor
) -> None:
    facts, lines = run_plan(plan_for(engine.url, extra={"temperature": "hot"}))
    assert all(line.error and line.error.startswith("HTTP 4") for line in lines)
    assert not facts.valid
    assert "12 of 12 requests failed" in facts.reasons[0]


def test_a_generator_that_lags_says_so(engine: SimulatorThread, plan_for: PlanFor) -> None:
    bounds = Bounds(max_lag_s=1e-9)
    load = Load(kind="constant", rate_per_s=100)
    facts, _ = run_plan(plan_for(engine.url, load=load, bounds=bounds))
    assert facts.lag_p99_s is not None
    assert not facts.valid
    assert "lagged" in facts.reasons[0]


def test_nobody_there_is_told_at_once(plan_for: PlanFor) -> None:
    with pytest.raises(TargetError, match="can't be reached"):
        run_plan(plan_for("http://127.0.0.1:9", model="any"))
    # Nothing stays that would be in the way of the next try.
    assert not list(plan_for("").folder.iterdir())
    with pytest.raises(TargetError, match="not an http or https URL"):
        run_plan(plan_for("localhost:8400"))


def test_a_key_goes_to_nobody_that_only_the_target_names() -> None:
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).lower())
        named = b'{"data": [{"url": "http://localhost:%d"}]}' % writer.get_extra_info("sockname")[1]
        writer.write(
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(named)
        )
        writer.write(named)
        await writer.drain()
        writer.close()

    with serving(handle) as port:
        control = Control(f"http://127.0.0.1:{port}", headers={"authorization": "Bearer k"})
        found = control.find()
        control.flush(found.engines)
        control.close()
    assert found.engines == (f"http://localhost:{port}",)
    for head in heads:
        assert (b"authorization: bearer k" in head) == (b"host: 127.0.0.1" in head)
    assert any(b"host: localhost" in head for head in heads)


def test_a_key_in_the_url_is_refused(plan_for: PlanFor) -> None:
    with pytest.raises(TargetError, match="--api-key-env") as told:
        run_plan(plan_for("https://me:secret@127.0.0.1/v1"))
    assert "secret" not in str(told.value)


def test_what_has_no_engine_can_not_be_flushed(plan_for: PlanFor) -> None:
    with serving(_answering(_STREAM)) as port, pytest.raises(TargetError, match="--engine-url"):
        run_plan(plan_for(f"http://127.0.0.1:{port}", model="any", flush=True))


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
_CHUNK = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
_LAST = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
_BODY = _CHUNK + _LAST
_STREAM = _HEAD + b"content-length: %d\r\n\r\n" % len(_BODY) + _BODY


def _answering(answer: bytes, *, hang: bool = False, drop: bool = False):  # type: ignore[no-untyped-def]
    """Every POST gets this, every GET a 404; then the connection goes on, hangs or is dropped."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(answer)
                await writer.drain()
                if hang:
                    await asyncio.sleep(60)
                if drop:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return handle


def test_a_service_that_tells_no_usage_has_unknown_figures(plan_for: PlanFor) -> None:
    with serving(_answering(_STREAM)) as port:
        facts, lines = run_plan(plan_for(f"http://127.0.0.1:{port}/v1", model="any"))
    assert facts.valid
    assert facts.target.kind == "openai"
    assert facts.engine is None
    assert {line.prompt_tokens for line in lines} == {None}
    (summary,) = summarise_phases(lines)
    assert summary.hits.rate is None
    assert summary.hits.unknown == 12
    assert summary.throughput.output_tokens_per_s is None
    assert summary.ttft.n == 12


@pytest.mark.parametrize(
    ("answer", "how", "told"),
    [
        (_HEAD + b"content-length: 999\r\n\r\n" + _CHUNK, {"drop": True}, "the connection broke"),
        (_HEAD + b"content-length: 999\r\n\r\n" + _CHUNK, {"hang": True}, "timed out"),
        (
            _HEAD + b"content-length: %d\r\n\r\n" % len(_CHUNK) + _CHUNK,
            {},
            "the stream ended before the answer did",
        ),
        (b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy", {}, "HTTP 503: busy"),
        (b"nonsense\r\n\r\n", {"drop": True}, "not HTTP"),
    ],
)
def test_each_way_to_fail_is_counted_and_named(
    answer: bytes, how: dict[str, bool], told: str, plan_for: PlanFor
) -> None:
    with serving(_answering(answer, **how)) as port:
        url = f"http://127.0.0.1:{port}"
        facts, lines = run_plan(
            plan_for(url, model="any", timeout_s=0.5 if how.get("hang") else 60)
        )
    assert not facts.valid
    assert all(line.error is not None and told in line.error for line in lines)
    assert not any(line.ok for line in lines)


def test_a_connection_that_was_closed_meanwhile_costs_no_request(plan_for: PlanFor) -> None:
    with serving(_answering(_STREAM, drop=True)) as port:
        facts, lines = run_plan(plan_for(f"http://127.0.0.1:{port}", model="any"))
    assert facts.valid
    assert all(line.ok for line in lines)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_tls_works_and_a_stranger_is_refused(
    plan_for: PlanFor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key),
         "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with serving(_answering(_STREAM), tls=tls) as port:
        url = f"https://127.0.0.1:{port}"
        with pytest.raises(TargetError, match="certificate"):
            run_plan(plan_for(url, model="any", folder=tmp_path / "stranger"))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        facts, lines = run_plan(plan_for(url, model="any", api_key="k"))
    assert facts.valid
    assert all(line.ok for line in lines)
    assert "secret" not in repr(plan_for(url, api_key="secret"))


def _command(workload: Path, folder: Path, url: str) -> list[str]:
    code = "from bench.cli import bench; bench()"
    words = ["run", str(workload), "--url", url, "--model", "any", "-o", str(folder)]
    return [sys.executable, "-c", code, *words, "--concurrency", "2", "--no-ignore-eos"]


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_keeps_what_it_has_and_says_so(
    number: signal.Signals, small: Workload, tmp_path: Path
) -> None:
    write_workload(tmp_path / "w.jsonl", small)
    asked, waiting = 0, threading.Semaphore(0)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    continue
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                asked += 1
                if asked > 6:  # and so the first six are answered
                    waiting.release()
                    await asyncio.sleep(600)
                writer.write(_STREAM)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    with serving(handle) as port:
        command = _command(tmp_path / "w.jsonl", tmp_path / "run", f"http://127.0.0.1:{port}")
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                for _ in range(2):
                    assert waiting.acquire(timeout=60)
                # Lines reach the disk once a second.
                give_up = time.monotonic() + 60
                while number is signal.SIGKILL and not _lines(tmp_path / "run" / "requests.jsonl"):
                    assert time.monotonic() < give_up
                    time.sleep(0.05)
                os.kill(process.pid, number)
                process.communicate(timeout=60)
            finally:
                process.kill()
    run = read_run(tmp_path / "run")
    assert not run.facts.valid
    if number is signal.SIGKILL:
        assert "killed, or still running" in run.facts.reasons[0]
        assert 1 <= sum(line.ok for line in run.requests) <= 6
    else:
        assert process.returncode == 1
        assert run.facts.reasons[0].startswith("interrupted")
        assert sum(line.ok for line in run.requests) == 6
        assert any(line.error == "interrupted" for line in run.requests)
