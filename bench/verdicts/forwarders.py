"""Lines between an engine and a gateway that take evidence away on purpose."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import zmq

_TIMEOUT_S = 120.0
_QUEUE_MESSAGES = 100_000


class EventLine:
    """Passes KV events on; while `dropping`, it loses them. Nothing can be asked for again."""

    def __init__(self, source: str, *, topic: str = "") -> None:
        self.dropping = False
        self.dropped = 0
        self._context = zmq.Context()
        self._from = self._context.socket(zmq.SUB)
        self._from.setsockopt(zmq.RCVHWM, _QUEUE_MESSAGES)
        self._from.subscribe(topic)
        self._from.connect(source)
        self._to = self._context.socket(zmq.PUB)
        self.address = f"tcp://127.0.0.1:{self._to.bind_to_random_port('tcp://127.0.0.1')}"
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._pass_on, name="event-line", daemon=True)
        self._thread.start()

    def drop(self, dropping: bool) -> None:
        """From now on, lose what comes; or don't."""
        self.dropping = dropping

    def close(self) -> None:
        """End the line."""
        self._ends.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def _pass_on(self) -> None:
        while not self._ends.is_set():
            if self._from.poll(50):
                parts = self._from.recv_multipart()
                if self.dropping:
                    self.dropped += 1
                else:
                    self._to.send_multipart(parts)


@contextmanager
def event_line(source: str, *, topic: str = "") -> Iterator[EventLine]:
    """A line that is ended in any case."""
    line = EventLine(source, topic=topic)
    try:
        yield line
    finally:
        line.close()


@contextmanager
def keeping_quiet(engine: str, *, hidden: Sequence[str]) -> Iterator[str]:
    """An engine's address at which it doesn't say some things.

    `cache_report`: what it re-uses. `kv_events`: where it publishes its KV events. Answers come
    whole; streams are not passed on as they come.
    """
    handler = type("Handler", (_Handler,), {"engine": engine, "hidden": frozenset(hidden)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, name="quiet-engine", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    engine: str
    hidden: frozenset[str]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._pass_on("GET")

    def do_POST(self) -> None:
        self._pass_on("POST")

    def log_message(self, *_: object) -> None:
        """Nothing: the gateway asks all the time."""

    def _pass_on(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        kept = {"content-type": self.headers.get("content-type", "application/json")}
        kept |= {n: v for n, v in self.headers.items() if n.lower().startswith("x-")}
        url = f"{self.engine}{self.path}"
        with httpx.Client(trust_env=False, timeout=_TIMEOUT_S) as client:
            answer = client.request(method, url, content=body, headers=kept)
        with suppress(ConnectionError):  # the gateway may have given up meanwhile
            self._answer(answer)

    def _answer(self, answer: httpx.Response) -> None:
        content = self._quiet(answer.content)
        self.send_response(answer.status_code)
        self.send_header("content-type", answer.headers.get("content-type", "text/plain"))
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _quiet(self, content: bytes) -> bytes:
        if content.startswith(b"{"):
            return json.dumps(self._without(json.loads(content))).encode()
        lines = content.split(b"\n")
        return b"\n".join(
            b"data: " + json.dumps(self._without(json.loads(line[6:]))).encode()
            if line.startswith(b"data: {")
            else line
            for line in lines
        )

    def _without(self, told: dict[str, Any]) -> dict[str, Any]:
        if "kv_events" in self.hidden:
            told.pop("kv_events", None)
        if "cache_report" in self.hidden:
            if "enable_cache_report" in told:
                told["enable_cache_report"] = False
            if isinstance(told.get("usage"), dict):
                told["usage"].pop("prompt_tokens_details", None)
            if isinstance(told.get("sglext"), dict):
                told["sglext"].pop("cached_tokens_details", None)
        return told
