"""Two whole gateways before the same engines, which publish no KV events."""

import time
from pathlib import Path

import httpx
import pytest

from app.shared_views import views
from bench.engine_sim import ClockConfig
from tests.app.admission.conftest import RedisServer
from tests.app.fleet.conftest import until
from tests.app.shared_views.conftest import Whole, engines, whole

pytestmark = pytest.mark.slow


def question(number: int) -> str:
    return f"{number}. " + f"When does ferry {number} leave in the morning, and for where? " * 8


def test_each_knows_what_the_other_sent_and_a_late_one_learns_it(
    tokenizer_folder: Path,
    tmp_path: Path,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        engines(tokenizer_folder) as two,
        whole(tmp_path, two, redis_server.url) as one,
        whole(tmp_path, two, redis_server.url) as other,
    ):
        until(lambda: one.gateways()["others"] == 1)
        # Engine 0 gets all that one is asked, so that hashing can't be why both agree.
        one.operate("POST", "engine-1/cordon")
        until(lambda: other.states()["engine-1"] == "cordoned")
        assert {one.ask(question(n))["replica"] for n in range(6)} == {"engine-0"}
        one.operate("POST", "engine-1/uncordon")
        until(lambda: other.states()["engine-1"] == "ready")
        until(lambda: other.gateways()["applied"] >= 12)
        for told in (other.ask(question(n)) for n in range(6)):
            assert told["replica"] == "engine-0"
            assert told["cached_tokens"] > 100
        with whole(tmp_path, two, redis_server.url) as late:
            assert late.gateways()["history_s"] > 0
            assert {late.ask(question(n))["replica"] for n in range(6)} == {"engine-0"}
        monkeypatch.setattr(views, "_LIFETIME_S", 5)
        until(lambda: one.gateways()["others"] == 1)
        metrics = f"{one.url}/metrics"
        until(lambda: "foreword_gateways 2.0" in httpx.get(metrics, trust_env=False).text)


def test_without_redis_each_goes_by_its_own_and_says_so(
    tokenizer_folder: Path, tmp_path: Path, redis_server: RedisServer
) -> None:
    with (
        engines(tokenizer_folder) as two,
        whole(tmp_path, two, redis_server.url) as one,
        whole(tmp_path, two, redis_server.url) as other,
    ):
        redis_server.stop()
        for gateway in (one, other):
            _until_lost(gateway)
            assert any("other gateways" in reason for reason in gateway.ready()["reasons"])
            assert gateway.ask(question(1))["replica"].startswith("engine-")
        redis_server.start()
        until(lambda: one.gateways()["others"] == other.gateways()["others"] == 1)
        applied = other.gateways()["applied"]
        one.ask(question(2))
        until(lambda: other.gateways()["applied"] > applied)
        assert not any("other gateways" in reason for reason in one.ready()["reasons"])


def test_two_gateways_do_not_send_to_the_same_idle_engine(
    tokenizer_folder: Path, tmp_path: Path, redis_server: RedisServer
) -> None:
    slow = ClockConfig(speedup=1)
    with (
        engines(tokenizer_folder, clock=slow) as two,
        whole(tmp_path, two, redis_server.url) as one,
        whole(tmp_path, two, redis_server.url) as other,
    ):
        until(lambda: one.gateways()["others"] == 1)

        def everywhere(gateway: Whole) -> list[int]:
            listed = gateway.operate("GET", "").json()["data"]
            return sorted(each["load"]["in_flight_everywhere"] for each in listed)

        with one.flying(question(1)):
            until(lambda: everywhere(other) == [0, 1])
            listed = other.operate("GET", "").json()["data"]
            assert [each["load"]["in_flight"] for each in listed] == [0, 0]
        until(lambda: everywhere(other) == [0, 0])


def test_orders_hold_for_all_gateways_and_after_a_restart(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    """With the database alone: no Redis is needed."""
    with engines(tokenizer_folder, 3) as three:
        with whole(tmp_path, three[:2], None) as one, whole(tmp_path, three[:2], None) as other:
            added = one.operate("POST", "", url=three[2].url, name="third")
            assert added.status_code == 201
            other.operate("POST", "engine-0/cordon")
            until(lambda: other.states().get("third") == "ready")
            until(lambda: one.states()["engine-0"] == "cordoned")
            one.operate("DELETE", "engine-1")
            until(lambda: "engine-1" not in other.states())
            assert other.ask(question(1))["replica"] == "third"
        with whole(tmp_path, three[:2], None) as again:
            time.sleep(1.2)  # each second it looks what was ordered
            until(lambda: again.states() == {"engine-0": "cordoned", "third": "ready"})


def _until_lost(gateway: Whole) -> None:
    until(lambda: not gateway.gateways()["up"])
