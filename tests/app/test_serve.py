"""What `foreword serve` does beside listening."""

import gc
import threading
import time
from pathlib import Path

import pytest
import uvicorn
from click.testing import CliRunner

from app.main import create_app
from app.serve import GatewayServer, serve
from tests.gateways import gateway_settings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"REPLICAS__DISCOVERY": "dns"}, "FOREWORD_REPLICAS__DNS: is not set"),
        ({"REPLICAS__DISCOVERY": "dns", "REPLICAS__DNS": "engines"}, "isn't HOST:PORT"),
        ({"REPLICAS__DISCOVERY": "kubernetes", "REPLICAS__KUBERNETES": "a/b:1"}, "only in a pod"),
        ({"REPLICAS__URLS": '["engine-1:30000"]'}, "FOREWORD_REPLICAS__URLS: this URL can't be"),
        ({"ENGINE__URL": "http://me@engine-1"}, "FOREWORD_ENGINE__URL: this URL can't be"),
        (
            {"ENGINE__URL": "http://127.0.0.1:18466", "GATEWAY__PORT": "18466"},
            "FOREWORD_ENGINE__URL: http://127.0.0.1:18466 can't be asked: it is this",
        ),
        (
            {"REPLICAS__URLS": '["http://10.0.0.1:1", "http://169.254.169.254:80"]'},
            "FOREWORD_REPLICAS__URLS: http://169.254.169.254:80 can't be asked: 169.254.169.254 is "
            "a link-local or multicast address",
        ),
        ({"TIERS__URL": "http://169.254.169.254"}, "FOREWORD_TIERS__URL: http://169.254.169.254 "),
        (
            {
                "REPLICAS__URLS": '["http://127.0.0.1:18467"]',
                "TIERS__PORT": "18466",
                "GATEWAY__PORT": "18466",
            },
            "FOREWORD_TIERS__PORT: http://127.0.0.1:18466 can't be asked",
        ),
        (
            {"REPLICAS__URLS": '["http://127.0.0.1:1"]', "TIERS__URLS": '["http://[fe80::1]:1"]'},
            "FOREWORD_TIERS__URLS: http://[fe80::1]:1 can't be asked",
        ),
        (
            {"SHADOW__URL": "http://localhost:18466/v1", "GATEWAY__PORT": "18466"},
            "FOREWORD_SHADOW__URL: http://localhost:18466/v1 can't be asked",
        ),
    ],
)
def test_replicas_that_cannot_be_are_one_sentence_and_status_2(
    tmp_path: Path, settings: dict[str, str], says: str
) -> None:
    env = {f"FOREWORD_{name}": value for name, value in settings.items()}
    env |= {"FOREWORD_HOME": str(tmp_path), "FOREWORD_RETRIEVAL__EMBEDDER": "hashing"}
    result = CliRunner().invoke(serve, env={"FOREWORD_GATEWAY__PORT": "0"} | env)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_was_loaded_at_the_start_is_left_out_of_collections(tmp_path: Path) -> None:
    app = create_app(gateway_settings(tmp_path, "http://127.0.0.1:9"))
    server = GatewayServer(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    before, thresholds = gc.get_freeze_count(), gc.get_threshold()
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not (server.started and gc.get_freeze_count() > before):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        server.should_exit = True
        thread.join(30)
    # Another server in this process begins with what Python does by itself.
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, thresholds)
