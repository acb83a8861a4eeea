"""Each replica with a tier server of its own: what is told of it, and by whom."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from app.settings import ReplicasSettings, TiersSettings
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread, TierConfig
from tests.app.fleet.conftest import Site, until
from tests.app.tier_server import TierServer, running_tier_server
from tests.engines import flush
from tests.gateways import gateway_settings, running_gateway, wait_until_ready


@dataclass
class OwnTiers(Site):
    """Two engines, each with a tier server."""

    tiers: list[TierServer]
    running: list[ExitStack]

    def stop_tier(self, number: int) -> None:
        self.running[number].close()

    def start_tier(self, number: int) -> None:
        port = urlsplit(self.tiers[number].url).port
        assert port is not None
        self.running[number].enter_context(running_tier_server(self.tiers[number], port=port))

    def only(self, number: int) -> None:
        """Send requests nowhere else."""
        self.operate("POST", f"engine-{number}/uncordon").raise_for_status()
        self.operate("POST", f"engine-{1 - number}/cordon").raise_for_status()

    def flush(self, number: int) -> None:
        flush(self.engines[number].url)

    def delete_kv(self) -> int:
        url = f"{self.url}/foreword/tenants/local/kv"
        return int(httpx.delete(url, trust_env=False, timeout=60).json()["pending"])

    def reasons(self, number: int) -> str:
        return " ".join(self.ready()["replicas"][f"engine-{number}"]["reasons"])


@pytest.fixture
def own(tokenizer_folder: Path, tmp_path: Path) -> Iterator[OwnTiers]:
    engine = SimulatorConfig(
        model_path=tokenizer_folder,
        clock=ClockConfig(speedup=20),
        labels=("template", "tenant"),
        tier=TierConfig(),
    )
    with ExitStack() as stack:
        engines = [stack.enter_context(SimulatorThread(engine)) for _ in range(2)]
        tiers, running = [TierServer(), TierServer()], [ExitStack(), ExitStack()]
        for server, holder in zip(tiers, running, strict=True):
            stack.enter_context(holder).enter_context(running_tier_server(server))
        settings = gateway_settings(tmp_path / "home", engines[0].url).model_copy(
            update={
                "replicas": ReplicasSettings(urls=tuple(each.url for each in engines)),
                "tiers": TiersSettings(
                    urls=tuple(each.url for each in tiers), chunk_tokens=64, timeout_s=10.0
                ),
            }
        )
        url = stack.enter_context(running_gateway(settings))
        wait_until_ready(url)
        made = OwnTiers(url, engines, tiers, running)
        until(lambda: {made.state(0), made.state(1)} == {"ready"})
        yield made


def test_a_load_is_asked_of_its_own_replicas_tier_server(own: OwnTiers) -> None:
    own.only(1)
    prompt = own.ask()["prompt_tokens"]
    own.flush(1)
    own.tiers[1].stop = (prompt - 1) // 64 * 64
    block = own.ask()
    assert own.tiers[1].asked == [block["request_id"]]
    assert own.tiers[0].asked == []
    split = block["cached_by_tier"]
    assert split["ssd"] == split["storage"] == own.tiers[1].stop


def test_what_one_replicas_tiers_hold_is_not_expected_of_another(own: OwnTiers) -> None:
    own.only(0)
    own.ask()
    own.flush(0)
    assert own.ask()["cached_tokens"] > 0
    own.only(1)
    block = own.ask()
    assert (block["replica"], block["cached_tokens"], block["verdict"]) == ("engine-1", 0, "moved")


def test_a_tier_server_that_is_away_is_told_with_its_replica(own: OwnTiers) -> None:
    until(lambda: own.reasons(0) == own.reasons(1))
    own.stop_tier(1)
    until(lambda: own.tiers[1].url in own.reasons(1))
    assert own.tiers[1].url not in own.reasons(0)
    told = {each["name"]: each["tiers"] for each in own.operate("GET", "").json()["data"]}
    assert told["engine-0"] == {
        "url": own.tiers[0].url, "own": True, "chunk_tokens": 64, "problem": None
    }  # fmt: skip
    assert own.tiers[1].url in told["engine-1"]["problem"]
    own.start_tier(1)
    until(lambda: own.tiers[1].url not in own.reasons(1))


def test_deleted_kv_waits_for_each_tier_server(own: OwnTiers) -> None:
    own.ask()
    own.stop_tier(1)
    assert own.delete_kv() == 1
    assert len(own.tiers[0].destroyed) == 1
    until(lambda: any(own.tiers[1].url in reason for reason in own.ready()["reasons"]))
    own.start_tier(1)
    assert own.delete_kv() == 0
    assert set(own.tiers[0].destroyed) == set(own.tiers[1].destroyed)
    assert len(set(own.tiers[1].destroyed)) == 2


def test_engines_on_one_host_have_no_tier_servers_of_their_own_by_a_port(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    """That is told; and since none of these has tiers, no deletion waits for them."""
    engine = SimulatorConfig(model_path=tokenizer_folder, labels=("template", "tenant"))
    with ExitStack() as stack:
        engines = [stack.enter_context(SimulatorThread(engine)) for _ in range(2)]
        server = stack.enter_context(running_tier_server(TierServer()))
        settings = gateway_settings(tmp_path / "home", engines[0].url).model_copy(
            update={
                "replicas": ReplicasSettings(urls=tuple(each.url for each in engines)),
                "tiers": TiersSettings(port=urlsplit(server.url).port),
            }
        )
        url = stack.enter_context(running_gateway(settings))
        wait_until_ready(url)
        site = OwnTiers(url, engines, [server], [])
        until(lambda: {site.state(0), site.state(1)} == {"ready"})
        assert "FOREWORD_TIERS__PORT finds one tier server for it and engine-1" in site.reasons(0)
        assert site.delete_kv() == 0
        assert server.destroyed == []
