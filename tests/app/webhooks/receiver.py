"""An HTTP server that takes webhooks, and answers as it is told."""

import base64
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# An endpoint's, as Standard Webhooks spells it.
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


class Receiver:
    """`heard` has headers and body of each request; `statuses` are answered first, then 200."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        self.url = f"http://127.0.0.1:{server.server_address[1]}/hooks?of=foreword"

    def wait(self, count: int, *, within_s: float = 60.0) -> None:
        """Until so many requests came."""
        deadline = time.monotonic() + within_s
        while len(self.heard) < count:
            assert time.monotonic() < deadline, f"{len(self.heard)} came"
            time.sleep(0.02)


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.heard.append(({k.lower(): v for k, v in self.headers.items()}, body))
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            self.send_response(status)
            if status in (301, 307):
                self.send_header("location", f"{receiver.url}&again=1")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
