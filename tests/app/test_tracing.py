"""Traces of real requests, as a collector gets them, and as the engine is told of them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from app.settings import Settings, TelemetrySettings
from app.telemetry import is_wanted, open_tracing, traces_url
from bench.engine_sim import SimulatorThread
from tests.app.otlp_collector import Collector, Tap, running_collector, tapped
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

_TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
_PARENT = "b7ad6b7169203331"
_TRACEPARENT = f"00-{_TRACE_ID}-{_PARENT}-01"
_SECRET = "the harbour master's name is Quillfeather"


def traced(settings: Settings, telemetry: TelemetrySettings) -> Settings:
    return settings.model_copy(update={"telemetry": telemetry})


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture(scope="module")
def tap(simulator: SimulatorThread) -> Iterator[Tap]:
    with tapped(simulator.url) as running:
        yield running


@pytest.fixture(scope="module")
def client(
    tap: Tap, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    settings = gateway_settings(tmp_path_factory.mktemp("home"), tap.url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        with running_gateway(traced(settings, TelemetrySettings(otlp_url=collector.url))) as url:
            wait_until_ready(url)
            with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as made:
                yield made


def spans_of(collector: Collector, trace_id: str) -> dict[str, Span]:
    """By name, once the whole trace is there."""

    def mine(spans: list[Span]) -> list[Span]:
        return [span for span in spans if span.trace_id.hex() == trace_id]

    spans = collector.wait(lambda s: any(each.name.startswith("POST") for each in mine(s)))
    return {span.name: span for span in mine(spans)}


def facts(span: Span) -> dict[str, object]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def ask(client: openai.OpenAI, *, traceparent: str = _TRACEPARENT, stream: bool = False) -> str:
    """Returns the id of the answer."""
    answer = client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": _SECRET}],
        max_tokens=8,
        stream=stream,
        extra_headers={"traceparent": traceparent},
    )
    return next(iter(answer)).id if stream else answer.id


def test_a_request_is_traced_under_its_clients_trace(
    client: openai.OpenAI, collector: Collector, tap: Tap
) -> None:
    tap.sent.clear()
    request_id = ask(client)
    spans = spans_of(collector, _TRACE_ID)
    root = spans["POST /v1/chat/completions"]
    assert {"admit", "prepare", "route", "engine"} <= spans.keys()
    assert root.parent_span_id.hex() == _PARENT
    assert root.kind == Span.SPAN_KIND_SERVER
    for name in ("admit", "prepare", "route", "engine"):
        assert spans[name].parent_span_id == root.span_id
        assert root.start_time_unix_nano <= spans[name].start_time_unix_nano
        assert spans[name].end_time_unix_nano <= root.end_time_unix_nano
    known = facts(root)
    assert known["foreword.tenant"] == "local"
    assert known["http.response.status_code"] == 200
    assert known["gen_ai.response.id"] == request_id
    assert known["gen_ai.usage.output_tokens"] == 8
    assert collector.services == {"foreword"}

    told = re.search(rb"traceparent: 00-(\w+)-(\w+)-01\r\n", bytes(tap.sent))
    assert told is not None
    assert told[1].decode() == _TRACE_ID
    assert told[2].decode() == spans["engine"].span_id.hex()


def test_a_stream_has_a_span_from_its_first_content(
    client: openai.OpenAI, collector: Collector
) -> None:
    trace_id = "1" * 32
    ask(client, traceparent=f"00-{trace_id}-{_PARENT}-01", stream=True)
    spans = spans_of(collector, trace_id)
    stream, engine = spans["stream"], spans["engine"]
    assert stream.parent_span_id == engine.span_id
    assert engine.start_time_unix_nano < stream.start_time_unix_nano < engine.end_time_unix_nano


def test_a_refused_request_has_a_trace_too(client: openai.OpenAI, collector: Collector) -> None:
    trace_id = "2" * 32
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(
            model="nobody",
            messages=[{"role": "user", "content": _SECRET}],
            extra_headers={"traceparent": f"00-{trace_id}-{_PARENT}-01"},
        )
    spans = spans_of(collector, trace_id)
    assert facts(spans["POST /v1/chat/completions"])["error.type"] == "model_not_found"
    assert spans["prepare"].status.code == Status.STATUS_CODE_ERROR
    assert "engine" not in spans


def test_what_the_client_does_not_want_traced_is_passed_on_and_not_sent(
    client: openai.OpenAI, collector: Collector, tap: Tap
) -> None:
    trace_id = "3" * 32
    tap.sent.clear()
    ask(client, traceparent=f"00-{trace_id}-{_PARENT}-00")
    assert re.search(rb"traceparent: 00-%b-\w{16}-00\r\n" % trace_id.encode(), bytes(tap.sent))
    ask(client, traceparent=f"00-{'4' * 32}-{_PARENT}-01")
    spans_of(collector, "4" * 32)
    assert trace_id not in {span.trace_id.hex() for span in collector.spans}


@pytest.mark.parametrize(
    "malformed",
    ["", "00", "00-xyz-abc-01", "ff-" + "1" * 32 + "-" + "2" * 16 + "-01", "é" * 500, "00-0-0-0"],
)
def test_a_malformed_traceparent_begins_a_new_trace(
    client: openai.OpenAI, collector: Collector, malformed: str
) -> None:
    url = str(client.base_url)
    body = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    headers = {"traceparent": malformed.encode("latin-1")}
    before = len(collector.spans)
    assert httpx.post(f"{url}chat/completions", json=body, headers=headers).status_code == 200
    spans = collector.wait(lambda s: any(span.name.startswith("POST") for span in s[before:]))
    roots = [span for span in spans[before:] if span.name.startswith("POST")]
    assert [root.parent_span_id for root in roots] == [b""]


def test_no_text_of_a_prompt_is_in_any_span(client: openai.OpenAI, collector: Collector) -> None:
    ask(client, traceparent=f"00-{'5' * 32}-{_PARENT}-01")
    spans_of(collector, "5" * 32)
    everything = b"".join(span.SerializeToString() for span in collector.spans)
    assert b"Quillfeather" not in everything


@pytest.mark.slow
def test_a_collector_that_is_away_costs_no_request(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    telemetry = TelemetrySettings(otlp_url="http://127.0.0.1:9")
    with running_gateway(traced(gateway_settings(tmp_path, simulator.url), telemetry)) as url:
        wait_until_ready(url)
        body = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}
        answer = httpx.post(f"{url}/v1/chat/completions", json=body | {"max_tokens": 1})
        assert answer.status_code == 200
        assert "traceparent" not in answer.headers


@pytest.mark.parametrize(
    ("settings", "environment", "wanted"),
    [
        ({}, {}, False),
        ({"otlp_url": "http://x:4318"}, {}, True),
        ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, True),
        ({}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x/t"}, True),
        ({"otlp_url": "http://x:4318"}, {"OTEL_SDK_DISABLED": "true"}, False),
        ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_traces_are_wanted_where_somebody_said_where_they_go(
    settings: dict[str, str], environment: dict[str, str], wanted: bool
) -> None:
    assert is_wanted(TelemetrySettings.model_validate(settings), environment) is wanted


def test_without_a_collector_there_is_no_tracing() -> None:
    with open_tracing(TelemetrySettings(), {}) as tracing:
        assert tracing is None


@pytest.mark.slow
def test_a_gateway_without_tracing_never_loads_the_sdk() -> None:
    loaded = "[name for name in sys.modules if name.startswith('opentelemetry.sdk')]"
    code = f"import sys, app.serve; print({loaded})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        (None, {}, None),
        ("http://c:4318", {}, "http://c:4318/v1/traces"),
        ("http://c:4318/", {}, "http://c:4318/v1/traces"),
        ("https://c/mine", {}, "https://c/mine"),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c/x/"}, "http://c/x/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/x"}, "http://c/x"),
        ("http://c:4318", {"OTEL_SDK_DISABLED": "true"}, None),
    ],
)
def test_where_engines_send_their_traces(
    url: str | None, environment: dict[str, str], expected: str | None
) -> None:
    assert traces_url(TelemetrySettings(otlp_url=url), environment) == expected
