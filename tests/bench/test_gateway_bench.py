"""The comparison of gateways: its requests, its programs, its page."""

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from bench.errors import GatewayBenchError
from bench.gateway.bodies import COUNTER, write_bodies
from bench.gateway.measure import (
    Load,
    Target,
    Tools,
    ask,
    build_tools,
    encoding_us,
    running_upstream,
)
from bench.gateway.peers import peers
from bench.gateway.report import cpu_us, page
from bench.soak.model_folder import write_model_folder

_FRESH_BYTES = 200
_CHUNKS = 12


def _read(path: Path) -> Iterator[tuple[bytes, int]]:
    data, at = path.read_bytes(), 0
    while at < len(data):
        length, counter = struct.unpack_from("<II", data, at)
        yield data[at + 8 : at + 8 + length], counter
        at += 8 + length


def test_a_request_has_the_size_asked_for_and_little_that_is_new(tmp_path: Path) -> None:
    """All bodies begin alike, and what they don't share with an earlier one is the question."""
    write_bodies(tmp_path / "bodies", body_bytes=4096, stream=False)
    bodies = list(_read(tmp_path / "bodies"))
    for body, counter in bodies:
        assert abs(len(body) - 4096) < 250
        assert body[counter : counter + 16] == COUNTER.encode()
        question = json.loads(body)["messages"][-1]["content"]
        assert len(question) < _FRESH_BYTES
    earlier = {json.dumps(json.loads(body)["messages"][:-1]) for body, _ in bodies}
    assert len(earlier) * 4 <= len(bodies)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return build_tools(tmp_path_factory.mktemp("tools"), chunks=_CHUNKS)


@pytest.mark.slow
@pytest.mark.parametrize("gap_ms", [0, 2])
@pytest.mark.parametrize("stream", [False, True])
def test_every_answer_is_read_to_its_last_word(
    tools: Tools, tmp_path: Path, stream: bool, gap_ms: int
) -> None:
    """A client that expects more words than there are counts each answer as wrong."""
    bodies = tmp_path / "bodies"
    write_bodies(bodies, body_bytes=2048, stream=stream)
    load = Load(name="few", bodies=bodies, connections=3, seconds=0.5, stream=stream)
    with running_upstream(tools, tmp_path, gap_ms=gap_ms) as port:
        target = Target(pid=0, port=port)
        told = ask(tools, target, load)
        more = ask(replace(tools, chunks=_CHUNKS + 1), target, load)
        paced = ask(tools, target, replace(load, rate=40.0))
    assert told["answered"] == told["asked"] > 0
    assert told["wrong"] == told["broken"] == told["stuck"] == 0
    assert (more["answered"], more["wrong"]) == (0, more["asked"])
    # Without a rate it would be thousands; a busy machine answers fewer than twenty.
    assert 0 < paced["answered"] <= 40
    if stream and gap_ms:
        assert told["total"]["p50_us"] > told["first"]["p50_us"] + _CHUNKS * gap_ms * 500


@pytest.mark.slow
def test_encoding_a_new_question_takes_some_time(tmp_path: Path) -> None:
    """The figure is of one question: the same for one as for many."""
    write_bodies(tmp_path / "bodies", body_bytes=2048, stream=False)
    model = write_model_folder(tmp_path / "model")
    assert 1 < encoding_us(model, tmp_path / "bodies", 0.3) < 20_000
    with pytest.raises(GatewayBenchError, match="could not be measured"):
        encoding_us(tmp_path, tmp_path / "bodies", 0.3)


@pytest.mark.slow
def test_the_engine_tells_truly_what_earlier_prompts_had(tools: Tools, tmp_path: Path) -> None:
    """Whole pages of a beginning that came before, whichever prompt it was of, but the last token.

    Otherwise each request would look as if something of it had been lost, and cost more.
    """
    rules, one, other = list(range(100)), list(range(200, 240)), list(range(300, 340))
    asked = [rules + one, rules + other, rules + one + other, rules + one, [], one]
    with running_upstream(tools, tmp_path, gap_ms=0) as port:
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        told = [
            httpx.post(url, content=orjson.dumps({"input_ids": ids})).json()["usage"]
            for ids in asked
        ]
    assert [each["prompt_tokens"] for each in told[:4]] == [140, 140, 180, 140]
    cached = [each["prompt_tokens_details"]["cached_tokens"] for each in told]
    # 100 tokens are 6 pages of 16, 140 are 8; the last token is always computed.
    assert cached == [0, 96, 128, 128, 0, 0]


def test_an_unknown_gateway_is_named(tmp_path: Path) -> None:
    with pytest.raises(GatewayBenchError, match="smgg is not known; there are: foreword"):
        peers(tmp_path, only=("smgg",))


def _sample(gateway: str, load: str, number: int, cpu: float | None, p50: float) -> dict[str, Any]:
    times = {"p50_us": p50, "p99_us": 3 * p50, "max_us": 9 * p50}
    return {
        "gateway": gateway, "load": load, "round": number, "cpu_us": cpu, "rss_mb": 50.0,
        "wrong": 0, "broken": 0, "stuck": 0, "late": 0, "rate": 100.0, "first": times,
        "total": times,
    }  # fmt: skip


def test_the_page_has_medians_and_what_a_gateway_adds() -> None:
    """Added latency is a difference within a round; what answered nothing says so."""
    samples = [
        _sample("ours", "json", number, cpu, 300.0)
        for number, cpu in enumerate((250.0, 900.0, 270.0))
    ]
    for number in range(3):
        samples.append(_sample("ours", "quarter-ours", number, 260.0, 500.0 + number))
        samples.append(_sample("direct", "quarter-ours", number, None, 100.0 + number))
    samples.append(_sample("dead", "json", 0, None, 0.0))
    raw = {
        "plan": {"rounds": 3, "body_bytes": 4096},
        "peers": {name: {"version": "1", "does": "all"} for name in ("ours", "dead")},
        "samples": samples,
    }
    assert cpu_us(samples, "ours", "json") == 270.0
    text = page(raw)
    assert "| ours | 270 | 0 | 50 |" in text
    assert "| dead | none answered | 0 | 50 |" in text
    assert "| ours | 100 | 400 | 1200 | 0 / 0 |" in text
    assert "The budget leaves" not in text
    assert "thousand clients" not in text
    samples += [_sample("ours", "crowd", number, 1.0, 2000.0) for number in range(3)]
    assert "| ours | 2 | 6 | 18 | 18 |" in page(raw)
    named = [{**one, "gateway": "foreword"} for one in samples]
    assert "that out: 240 µs." in page({**raw, "samples": named, "encoding_us": [30.0, 29.0, 44.0]})
