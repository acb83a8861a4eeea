"""What `foreword serve` does beside listening."""

import gc
import threading
import time
from pathlib import Path

import uvicorn

from app.main import create_app
from app.serve import GatewayServer
from tests.gateways import gateway_settings


def test_what_was_loaded_at_the_start_is_left_out_of_collections(tmp_path: Path) -> None:
    app = create_app(gateway_settings(tmp_path, "http://127.0.0.1:9"))
    server = GatewayServer(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    before = gc.get_freeze_count()
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not (server.started and gc.get_freeze_count() > before):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        server.should_exit = True
        thread.join(30)
        gc.unfreeze()
