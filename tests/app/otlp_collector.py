"""An OTLP/HTTP collector that keeps the spans it gets, and a tap on what goes to an engine."""

import contextlib
import gzip
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_WAIT_S = 60.0


class Collector(ThreadingHTTPServer):
    """Takes spans on any free port."""

    daemon_threads = True

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        super().__init__(("127.0.0.1", 0), _Take)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def wait(self, enough: Callable[[list[Span]], bool]) -> list[Span]:
        """The spans, once they are enough."""
        deadline = time.monotonic() + _WAIT_S
        while not enough(self.spans):
            assert time.monotonic() < deadline, [span.name for span in self.spans]
            time.sleep(0.02)
        return list(self.spans)


class _Take(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for attribute in resource.resource.attributes:
                if attribute.key == "service.name":
                    self.server.services.add(attribute.value.string_value)
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def running_collector() -> Iterator[Collector]:
    """A collector, in a thread."""
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


class Tap(socketserver.ThreadingTCPServer):
    """Passes connections on to an engine, and keeps what was sent there."""

    daemon_threads = True

    def __init__(self, engine_url: str) -> None:
        parts = urlsplit(engine_url)
        self.engine = (str(parts.hostname), int(parts.port or 80))
        self.sent = bytearray()
        super().__init__(("127.0.0.1", 0), _Pass)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        assert isinstance(request, socket.socket)
        self.close_request(request)


class _Pass(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Tap)
        with socket.create_connection(self.server.engine) as engine:
            back = threading.Thread(target=_copy, args=(engine, self.request, bytearray()))
            back.start()
            _copy(self.request, engine, self.server.sent)
            back.join()


def _copy(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    with contextlib.suppress(OSError):  # one side hung up
        while data := source.recv(65536):
            kept += data
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def tapped(engine_url: str) -> Iterator[Tap]:
    """A tap, in a thread."""
    with Tap(engine_url) as tap:
        thread = threading.Thread(target=tap.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield tap
        finally:
            tap.shutdown()
            thread.join()
