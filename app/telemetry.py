"""Whether requests are traced, and where their traces go."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol
from urllib.parse import urlsplit

from starlette.types import Scope

from app.observation import RequestTrace
from app.settings import TelemetrySettings

# OpenTelemetry's own variables for where traces go.
_PATH = "/v1/traces"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class BeginsTraces(Protocol):
    """Makes the trace of each request."""

    def begin(self, scope: Scope) -> RequestTrace | None:
        """The trace of a new request; None for one that is not traced."""
        ...


@contextmanager
def open_tracing(
    settings: TelemetrySettings, environment: Mapping[str, str] = os.environ
) -> Iterator[BeginsTraces | None]:
    """Tracing while it lasts; None where nobody said where traces go.

    At the end what was not sent yet is sent, or given up within seconds.
    """
    if not is_wanted(settings, environment):
        yield None
        return
    from app.tracing import Tracing  # the SDK costs memory, which only those pay who trace

    tracing = Tracing(settings)
    try:
        yield tracing
    finally:
        tracing.close()


def traces_url(settings: TelemetrySettings, environment: Mapping[str, str]) -> str | None:
    """Where traces are sent, path included; None where they are off.

    What OpenTelemetry's own variables say is spelled as they mean it.
    """
    if not is_wanted(settings, environment):
        return None
    if settings.otlp_url is not None:
        url = settings.otlp_url.rstrip("/")
        # As with OTEL_EXPORTER_OTLP_ENDPOINT, a bare address is a base.
        return url if urlsplit(url).path else f"{url}{_PATH}"
    exact, base = (environment.get(name) for name in _ENDPOINTS)
    return exact or f"{(base or '').rstrip('/')}{_PATH}"


def is_wanted(settings: TelemetrySettings, environment: Mapping[str, str]) -> bool:
    """Whether our settings or OpenTelemetry's own variables say where traces go."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if settings.otlp_url is not None:
        return True
    wanted = environment.get("OTEL_TRACES_EXPORTER", "otlp").strip() == "otlp"
    return wanted and any(environment.get(name) for name in _ENDPOINTS)
