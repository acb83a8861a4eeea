"""The simulator's own ways: faults on order, its mark on every answer, its command."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
import zmq

from bench.engine_sim import ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread, TierConfig
from bench.errors import ModelFolderError, SimulatorStartError
from tests.contracts.client import Client, StartedEngine, wait_until

# A dropped connection reads as closed or as reset, whichever the kernel says first.
DROPPED = (httpx.RemoteProtocolError, httpx.ReadError)


@pytest.fixture
def simulator(model_path: Path) -> Iterator[SimulatorThread]:
    config = SimulatorConfig(
        model_path=model_path,
        served_model_name="sim",
        clock=ClockConfig(speedup=50),
        tier=TierConfig(),
        events=EventsConfig(replay_endpoint="tcp://127.0.0.1:0"),
    )
    with SimulatorThread(config) as running:
        yield running


@pytest.fixture
def client(simulator: SimulatorThread) -> Iterator[Client]:
    config = simulator.config
    client = Client(StartedEngine(url=simulator.url, model_path=config.model_path))
    with client.http:
        yield client


def order(client: Client, kind: str, **fields: object) -> None:
    answer = client.post("/simulator/faults", {"kind": kind, **fields})
    assert answer.status_code == 204, answer.text


def test_every_answer_says_that_it_is_simulated(client: Client) -> None:
    for path in ("/ready", "/server_info", "/metrics", "/nope"):
        assert "simulated" in client.http.get(path).headers["server"]
    assert client.get("/server_info")["engine"] == "simulated"
    assert client.get("/model_info")["engine"] == "simulated"


def test_a_delay_comes_before_the_answer(client: Client) -> None:
    order(client, "delay", seconds=0.3)
    started_s = time.perf_counter()
    client.chat("x")
    assert time.perf_counter() - started_s > 0.3


def test_an_error_comes_as_often_as_ordered(client: Client) -> None:
    order(client, "error", status=503, times=2)
    statuses = [client.post("/v1/chat/completions", client.body("x")).status_code for _ in "abc"]
    assert statuses == [503, 503, 200]


def test_a_fault_meets_only_its_path(client: Client) -> None:
    order(client, "error", path="/v1/loads", times=None)
    client.chat("x")
    assert client.http.get("/v1/loads").status_code == 500
    assert client.http.delete("/simulator/faults").status_code == 204
    assert client.http.get("/v1/loads").status_code == 200


def test_a_hang_never_answers(client: Client) -> None:
    order(client, "hang")
    with pytest.raises(httpx.ReadTimeout):
        client.http.post("/v1/chat/completions", json=client.body("x"), timeout=0.3)
    client.chat("x")


def test_a_drop_before_the_head(client: Client) -> None:
    order(client, "drop")
    with pytest.raises(DROPPED):
        client.post("/v1/chat/completions", client.body("x"))


def test_a_drop_in_the_middle_of_a_stream_ends_the_request(client: Client) -> None:
    order(client, "drop", after_chunks=3)
    lines: list[str] = []
    body = client.body("x", stream=True, max_tokens=2000)
    with (
        pytest.raises(DROPPED),
        client.http.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        lines += (line for line in answer.iter_lines() if line)
    assert 1 <= len(lines) <= 3
    wait_until(lambda: client.running() == 0)


def test_a_slow_tier_delays_and_a_dead_one_is_skipped(client: Client) -> None:
    prompt = client.ids(200)
    client.chat(prompt)
    client.flush()
    order(client, "slow_tier", seconds=15, times=None)  # 0.3 real seconds
    started_s = time.perf_counter()
    answer = client.chat(prompt)
    assert time.perf_counter() - started_s > 0.3
    assert answer["sglext"]["cached_tokens_details"]["storage"] == 192
    assert answer["sglext"]["cached_tokens_details"]["storage_backend"] == "LMCache"
    client.http.delete("/simulator/faults")
    client.flush()
    order(client, "tier_down", times=None)
    assert "sglext" not in client.chat(prompt)


def test_lost_events_leave_a_gap_that_a_replay_fills(
    client: Client, simulator: SimulatorThread
) -> None:

    publisher = simulator.engine.publisher
    assert publisher is not None
    assert publisher.replay_endpoint is not None
    with zmq.Context() as context, context.socket(zmq.SUB) as live:
        live.connect(publisher.endpoint)
        live.setsockopt(zmq.SUBSCRIBE, b"")
        time.sleep(0.2)
        client.chat(client.ids(40, seed=1), max_tokens=1)
        order(client, "lose_events", times=1)
        client.chat(client.ids(40, seed=2), max_tokens=1)
        client.chat(client.ids(40, seed=3), max_tokens=1)
        numbers = []
        while live.poll(300):
            numbers.append(int.from_bytes(live.recv_multipart()[1], "big"))
        assert numbers == [0, 2]
        with context.socket(zmq.DEALER) as replay:
            replay.connect(publisher.replay_endpoint)
            replay.send_multipart((b"", (1).to_bytes(8, "big")))
            assert replay.poll(3000)
            _, _, number, payload = replay.recv_multipart()
    assert int.from_bytes(number, "big") == 1
    assert msgspec.msgpack.decode(payload)[1][0]["type"] == "BlockStored"


def test_stopped_it_refuses_connections_and_comes_back_empty(
    client: Client, simulator: SimulatorThread
) -> None:
    prompt = client.ids(50)
    client.chat(prompt)
    simulator.stop()
    with pytest.raises(httpx.ConnectError):
        client.http.get("/ready")
    simulator.start()
    assert client.cached(prompt) == 0


def test_a_taken_port_and_a_folder_without_tokenizer_are_named(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    with pytest.raises(SimulatorStartError, match="could not listen"):
        SimulatorThread(simulator.config, port=simulator.port).start()
    with pytest.raises(ModelFolderError, match=r"no tokenizer\.json"):
        SimulatorThread(SimulatorConfig(model_path=tmp_path)).start()


def test_the_command_prints_its_url_and_stops_on_sigterm(model_path: Path) -> None:
    command = [sys.executable, "-m", "bench.engine_sim", "--model-path", str(model_path)]
    with subprocess.Popen(
        [*command, "--port", "0", "--speedup", "100"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        wait_until(lambda: httpx.get(f"{url}/ready").status_code == 200)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)


def test_the_command_says_what_is_wrong_in_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.engine_sim", "--model-path", str(tmp_path)]
    done = subprocess.run([*command, "--port", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("engine_sim: ")
    assert len(done.stderr.splitlines()) == 1
