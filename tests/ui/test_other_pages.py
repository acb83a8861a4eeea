"""An app of another origin in a real browser: it streams answers where the operator lists it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from app.admission.direct import open_store
from app.admission.keys import NewKey
from app.admission.store import OPERATOR
from app.callers import Role
from app.settings import WireSettings
from bench.engine_sim import SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.ui.conftest import PATIENCE_MS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# What openai-node does in a browser, headers and all.
_STREAM = """
async ([url, key]) => {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      "Authorization": `Bearer ${key}`, "Content-Type": "application/json",
      "X-Stainless-Lang": "js", "X-Stainless-Retry-Count": "0", "X-Stainless-Timeout": "600",
      "OpenAI-Organization": "org", "Idempotency-Key": "stainless-node-retry-1",
    },
    body: JSON.stringify({
      model: "default", stream: true, max_tokens: 6,
      messages: [{role: "user", content: "Hello?"}],
    }),
  });
  const reader = answer.body.getReader();
  let text = "", pieces = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    text += new TextDecoder().decode(part.value);
    pieces += 1;
  }
  return {status: answer.status, requestId: answer.headers.get("x-request-id"), text, pieces};
}
"""


class _BlankPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>app</title>")

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def _served_page() -> Iterator[str]:
    """The origin of a page that is not the gateway's."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _BlankPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _streamed(chromium: Browser, origin: str, url: str, key: str) -> dict[str, Any] | str:
    """What a script of a page got, or why it got nothing."""
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        page.goto(origin)
        script = f"(given) => ({_STREAM})(given).catch((error) => String(error))"
        told: dict[str, Any] | str = page.evaluate(script, [url, key])
        return told
    finally:
        context.close()


def test_a_listed_app_streams_and_another_reads_nothing(
    chromium: Browser, engine: SimulatorThread, tmp_path: Path
) -> None:
    with open_store(tmp_path, None) as store:
        key = store.create(NewKey(tenant="shop", role=Role.ADMIN), by=OPERATOR).key
    with _served_page() as listed, _served_page() as unlisted:
        settings = gateway_settings(tmp_path, engine.url).model_copy(
            update={"wire": WireSettings(origins=(listed,))}
        )
        with running_gateway(settings) as url:
            wait_until_ready(url)
            for _ in range(3):
                told = _streamed(chromium, listed, url, key)
                assert isinstance(told, dict), told
                assert told["status"] == 200
                assert told["text"].endswith("data: [DONE]\n\n")
                assert str(told["requestId"]).startswith("chatcmpl-")
            refused = _streamed(chromium, listed, url, "fw-none")
            assert isinstance(refused, dict), refused
            assert (refused["status"], "invalid_api_key" in refused["text"]) == (401, True)
            assert _streamed(chromium, unlisted, url, key) == "TypeError: Failed to fetch"
