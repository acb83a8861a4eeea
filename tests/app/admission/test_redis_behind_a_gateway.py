"""A gateway loses its Redis: requests are answered all the same, and it says so."""

import time
from pathlib import Path

import httpx
from pydantic import SecretStr

from app.settings import GatewaySettings, LimitsSettings
from bench.engine_sim import SimulatorThread
from tests.app.admission.conftest import RedisServer
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

_BODY = {
    "model": "default",
    "messages": [{"role": "user", "content": "Say something."}],
    "max_tokens": 2,
}


def test_losing_redis_degrades_and_its_return_is_seen(
    simulator: SimulatorThread, tmp_path: Path, redis_server: RedisServer
) -> None:
    settings = gateway_settings(tmp_path, simulator.url).model_copy(
        update={
            "gateway": GatewaySettings(port=0, redis_url=SecretStr(redis_server.url)),
            "limits": LimitsSettings(requests_per_min=1000, tokens_per_min=10**6, concurrent=9),
        }
    )
    with running_gateway(settings) as url:
        wait_until_ready(url)
        assert not _lost(url)
        _chats(url, 5)
        redis_server.stop()
        _chats(url, 5)
        _until(url, lost=True)
        _chats(url, 5)
        redis_server.start()
        _until(url, lost=False)
        _chats(url, 5)


def _chats(url: str, number: int) -> None:
    for _ in range(number):
        answer = httpx.post(f"{url}/v1/chat/completions", json=_BODY, trust_env=False)
        assert answer.status_code == 200, answer.text


def _until(url: str, *, lost: bool) -> None:
    deadline = time.monotonic() + 30
    while _lost(url) is not lost:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _lost(url: str) -> bool:
    reasons = httpx.get(f"{url}/readyz", trust_env=False).json()["reasons"]
    page = httpx.get(f"{url}/metrics", trust_env=False).text
    assert "foreword_redis_up" in page
    return any("Redis" in reason for reason in reasons)
