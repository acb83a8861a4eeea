"""OpenTelemetry traces, sent over OTLP/HTTP: gateway, and through it the engine.

```
POST /v1/chat/completions      server span; goes on with a client's own `traceparent`
├── admit                      the queue
├── prepare                    retrieval, rendering, encoding
├── route                      the choice of a replica
└── engine                     client span; its id travels to SGLang as `traceparent`
    └── stream                 from the first content to the end
```

Imported only where traces are on: the OpenTelemetry SDK costs memory and start-up time.
"""

import time
from collections.abc import Iterable, Iterator
from types import TracebackType

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    format_trace_id,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Scope

from app.observation import UNTRACED, Stage
from app.settings import TelemetrySettings
from app.telemetry import traces_url
from app.upstream import Headers
from app.version import VERSION
from cache.rows import LedgerRow, RequestStatus

_FLUSH_MS = 5_000
# Of a ledger row; none is text of a prompt or an answer.
_FACTS = (
    "tenant",
    "template",
    "collection",
    "mode",
    "mode_reason",
    "replica",
    "route_reason",
    "ideal_tokens",
    "cached_tokens",
    "cached_gpu",
    "cached_ram",
    "cached_ssd",
    "cached_redis",
    "cached_storage",
    "verdict",
    "cause",
    "ttft_s",
    "scaffold",
)
_W3C = TraceContextTextMapPropagator()
_PARENT_HEADERS = frozenset({b"traceparent", b"tracestate"})
# Polled by machines: traces of these would bury the others.
_UNTRACED = frozenset({"/livez", "/readyz", "/metrics"})


class Tracing:
    """Makes traces and sends them in the background; what can't be sent is dropped.

    What the settings don't say is taken from OpenTelemetry's own variables
    (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, …).
    """

    def __init__(self, settings: TelemetrySettings) -> None:
        self._provider = TracerProvider(
            resource=_resource(), sampler=_sampler(settings.sample_ratio), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(_exporter(settings)))
        self._tracer = self._provider.get_tracer("foreword", VERSION)

    def begin(self, scope: Scope) -> "Trace | None":
        """The trace of a new request; None for probes."""
        if scope["path"] in _UNTRACED:
            return None
        method = scope["method"]
        span = self._tracer.start_span(
            method,
            context=parent_of(scope["headers"]),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method},
        )
        return Trace(self._tracer, span, method)

    def close(self) -> None:
        """Send what is left, within seconds; blocks."""
        self._provider.force_flush(_FLUSH_MS)
        self._provider.shutdown()


def parent_of(headers: Iterable[tuple[bytes, bytes]]) -> Context:
    """The client's trace that a request goes on with; empty where it names none, or none well."""
    carrier = {
        name.decode(): value.decode("latin-1") for name, value in headers if name in _PARENT_HEADERS
    }
    return _W3C.extract(carrier, context=Context())


class Trace:
    """The spans of one request. One that isn't sampled still hands its ids on to the engine."""

    def __init__(self, tracer: Tracer, span: Span, method: str) -> None:
        self.trace_id = format_trace_id(span.get_span_context().trace_id)
        self._method = method
        self._tracer = tracer
        self._span = span
        self._context = set_span_in_context(span, Context())
        self._sampled = span.is_recording()
        self._engine: Span | None = None

    def stage(self, name: str) -> Stage:
        """A part of the request's way, from entering to leaving it."""
        if not self._sampled:
            return UNTRACED
        return TracedStage(self._tracer, name, self._context)

    def engine_headers(self) -> Headers:
        """Begins the engine's span; an earlier one was an attempt that failed."""
        if not self._sampled:
            return _headers(self._context)
        if self._engine is not None:
            self._engine.set_status(Status(StatusCode.ERROR, "another replica was tried"))
            self._engine.end()
        self._engine = self._tracer.start_span(
            "engine", context=self._context, kind=SpanKind.CLIENT
        )
        return _headers(set_span_in_context(self._engine, self._context))

    def finished(self, row: LedgerRow) -> None:
        """Adds what is known of the model request, and ends the engine's span."""
        if not self._sampled:
            return
        for name, value in _attributes(row):
            if value is not None:
                self._span.set_attribute(name, value)
        if self._engine is None:
            return
        if row.replica is not None:
            self._engine.set_attribute("foreword.replica", row.replica)
        if row.status is RequestStatus.ERROR:
            self._engine.set_status(Status(StatusCode.ERROR, row.error_code))
        if row.ttft_s is not None and row.e2e_s is not None:
            self._streamed(self._engine, row.e2e_s - row.ttft_s)
        self._engine.end()
        self._engine = None

    def end(self, *, route: str, status: str) -> None:
        """Ends the whole; `status` 499 is a client that left."""
        if self._engine is not None:
            self._engine.end()
        self._span.update_name(f"{self._method} {route}")
        self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", int(status))
        if status.startswith("5"):
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()

    def _streamed(self, engine: Span, seconds: float) -> None:
        """The span from the first content until now, made when it is over."""
        now = time.time_ns()
        context = set_span_in_context(engine, self._context)
        began = now - int(seconds * 1e9)
        self._tracer.start_span("stream", context=context, start_time=began).end(now)


class TracedStage:
    """A span that lasts as long as a `with` block."""

    def __init__(self, tracer: Tracer, name: str, context: Context) -> None:
        self._span = tracer.start_span(name, context=context)

    def set(self, name: str, value: str | int | float | bool) -> None:
        """Add a fact; never text of a prompt or an answer."""
        self._span.set_attribute(f"foreword.{name}", value)

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        if kind is not None:
            # Its message may have a client's words in it.
            self._span.set_status(Status(StatusCode.ERROR, kind.__name__))
        self._span.end()


def _exporter(settings: TelemetrySettings) -> OTLPSpanExporter:
    if settings.otlp_url is None:
        return OTLPSpanExporter()
    return OTLPSpanExporter(endpoint=traces_url(settings, {}))


def _sampler(ratio: float | None) -> Sampler | None:
    """None leaves it to OTEL_TRACES_SAMPLER, and that to everything."""
    return None if ratio is None else ParentBased(TraceIdRatioBased(ratio))


def _resource() -> Resource:
    told = Resource.create({"service.version": VERSION})
    if str(told.attributes.get("service.name", "")).startswith("unknown_service"):
        return told.merge(Resource({"service.name": "foreword"}))
    return told


def _headers(context: Context) -> Headers:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context=context)
    return tuple((name.encode(), value.encode("latin-1")) for name, value in carrier.items())


def _attributes(row: LedgerRow) -> Iterator[tuple[str, str | int | float | None]]:
    """Facts of a row; `gen_ai.…` as in OpenTelemetry's conventions for generative AI.

    The request's id is the engine's `rid` and LMCache's `request_id`.
    """
    yield "gen_ai.provider.name", "sglang"
    yield "gen_ai.response.id", row.request_id
    yield "gen_ai.usage.input_tokens", row.prompt_tokens
    yield "gen_ai.usage.output_tokens", row.completion_tokens
    yield "error.type", row.error_code
    for name in _FACTS:
        yield f"foreword.{name}", getattr(row, name)
