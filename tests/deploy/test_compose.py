"""The compose file can't be run without a Docker engine; what can be checked without one is."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.fleet.sources import check_sources
from app.settings import Settings
from cache.tiers import (
    RedisTier,
    TierSettings,
    engine_config,
    guard_environment,
    server_arguments,
    server_environment,
)
from tests.deploy import compose

ROOT = Path(__file__).parent.parent.parent
TIERS = TierSettings(
    chunk_tokens=256,
    page_tokens=64,
    ram_gb=16,
    ssd_gb=100,
    redis=RedisTier(host="kv-redis", port=6379),
)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return compose.services()


def option(command: list[str], name: str) -> str:
    return next(part.split("=", 1)[1] for part in command if part.startswith(f"{name}="))


def test_the_gateways_variables_are_settings(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = Settings.model_fields
    variables = services["gateway"]["environment"]
    for name in variables.keys() - {"ENGINE_DOWNLOADS", "MODEL"}:
        told = name.removeprefix("FOREWORD_").removesuffix("_FILE").lower()
        section, _, setting = told.partition("__")
        assert section in fields, name
        if setting:
            kind = fields[section].annotation
            assert kind is not None
            assert setting in kind.model_fields, name  # type: ignore[attr-defined]
        if not name.endswith("_FILE"):
            monkeypatch.setenv(name, variables[name])
    settings = Settings()
    assert settings.gateway.allow_without_keys is True
    check_sources(settings.replicas, engine_url=settings.engine.url)


def test_only_gateway_and_grafana_are_published_and_only_on_loopback(
    services: dict[str, Any],
) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"gateway": ["127.0.0.1:8400:8400"], "grafana": ["127.0.0.1:3000:3000"]}
    elsewhere = compose.services({"BIND": "0.0.0.0"})
    assert elsewhere["gateway"]["ports"] == ["0.0.0.0:8400:8400"]
    assert elsewhere["grafana"]["ports"] == published["grafana"]


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_the_gateway_takes_the_tokenizer_that_the_engine_downloaded(
    services: dict[str, Any], tmp_path: Path, shell: str
) -> None:
    """The hub's cache as huggingface_hub writes it: a branch's commit in refs, its files apart."""
    gateway, engine = services["gateway"], services["engine"]
    assert "models:/models:ro" in gateway["volumes"]
    assert gateway["environment"]["ENGINE_DOWNLOADS"] == "/models"
    assert f"models:{engine['environment']['HF_HOME']}" in engine["volumes"]
    assert option(engine["command"], "--model-path") == gateway["environment"]["MODEL"]
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    downloaded = tmp_path / "hub/models--Qwen--Qwen3-8B"
    (downloaded / "refs").mkdir(parents=True)
    (downloaded / "refs/main").write_text("0a1b2c")
    foreword = tmp_path / "bin/foreword"
    foreword.parent.mkdir()
    foreword.write_text('#!/bin/sh\necho "$1 $FOREWORD_ENGINE__TOKENIZER"\n')
    foreword.chmod(0o755)
    first, *arguments = gateway["command"]
    assert first == "sh"
    environment = {
        "PATH": f"{foreword.parent}:{os.environ['PATH']}",
        "ENGINE_DOWNLOADS": str(tmp_path),
        "MODEL": "Qwen/Qwen3-8B",
    }
    # Compose makes one sign of two.
    command = [shell, *(argument.replace("$$", "$") for argument in arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"serve {downloaded}/snapshots/0a1b2c\n"
    environment["MODEL"] = "not/there"
    served = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert served.stdout.startswith("serve "), "the gateway starts, and says that it has none"


def as_written(value: object) -> object:
    """An adapter's JSON as what it says."""
    text = str(value)
    return json.loads(text) if text.startswith("{") else text


def test_the_tier_is_told_what_the_typed_settings_say(services: dict[str, Any]) -> None:
    arguments = server_arguments(
        TIERS,
        host="0.0.0.0",
        port=5556,
        http_port=8090,
        prometheus_port=9095,
        shm_name="foreword",
        ssd_path="/var/lib/kv",
    )
    told = [f"{name}={value}" for name, value in pairs(arguments)]
    assert [
        (name, as_written(value)) for name, value in pairs(services["tier"]["command"][1:])
    ] == [(name, as_written(value)) for name, value in pairs(told)]


def pairs(arguments: list[str]) -> list[tuple[str, str]]:
    """`--a=1`, or `--a` and `1`, or `--a` alone, as names and values."""
    found: list[tuple[str, str]] = []
    for argument in arguments:
        if argument.startswith("--"):
            name, _, value = argument.partition("=")
            found.append((name, value))
        else:
            found[-1] = (found[-1][0], argument)
    return found


def test_both_sides_have_the_typed_settings_deadlines(services: dict[str, Any]) -> None:
    tier, engine = services["tier"]["environment"], services["engine"]["environment"]
    assert server_environment(TIERS).items() <= tier.items()
    assert guard_environment(TIERS).items() <= engine.items()


def test_the_gateway_knows_where_tier_and_events_are(services: dict[str, Any]) -> None:
    """Each engine tells its events' ports itself: with a wildcard they are at its own address."""
    told = services["gateway"]["environment"]
    http_port = option(services["tier"]["command"], "--http-port")
    assert told["FOREWORD_TIERS__URL"] == f"http://tier:{http_port}"
    assert not [name for name in told if "KV_EVENTS" in name]
    for name in ("engine", "engine-1", "engine-cpu"):
        events = json.loads(option(services[name]["command"], "--kv-events-config"))
        assert events["endpoint"].startswith("tcp://*:")
        assert events["replay_endpoint"].startswith("tcp://*:")


def test_salt_keys_outlive_the_container_and_lie_apart_from_the_kv(
    services: dict[str, Any],
) -> None:
    tier = services["tier"]
    folder = tier["environment"]["FOREWORD_KV_KEY_FOLDER"]
    assert f"kv-keys:{folder}" in tier["volumes"]
    assert "kv-key:/run/kv-key:ro" in tier["volumes"]
    assert tier["environment"]["FOREWORD_KV_KEY_FILE"] == "/run/kv-key/kv.key"


def test_chunks_are_whole_pages(services: dict[str, Any]) -> None:
    page = int(option(services["engine"]["command"], "--page-size"))
    chunk = int(option(services["tier"]["command"], "--chunk-size"))
    assert chunk % page == 0


def test_kv_at_rest_is_encrypted_on_every_adapter(services: dict[str, Any]) -> None:
    command = services["tier"]["command"]
    adapters = [
        json.loads(part.split("=", 1)[1]) for part in command if part.startswith("--l2-adapter=")
    ]
    assert [adapter["type"] for adapter in adapters] == ["fs_native", "resp"]
    assert all(adapter["serde"] == {"type": "foreword_aead"} for adapter in adapters)


def test_engine_and_tier_meet(services: dict[str, Any]) -> None:
    written = yaml.safe_load((ROOT / "deploy/compose/lmcache.yaml").read_text())
    port = int(option(services["tier"]["command"], "--port"))
    assert written == yaml.safe_load(engine_config(TierSettings(), host="tier", port=port))
    engine = services["engine"]
    assert "--enable-lmcache" in engine["command"]
    assert "--enable-cache-report" in engine["command"]
    assert engine["ipc"] == "service:tier"
    assert services["tier"]["ipc"] == "shareable"


def test_the_two_redis_keep_what_they_must(services: dict[str, Any]) -> None:
    assert services["kv-redis"]["command"][-2:] == ["--maxmemory-policy", "allkeys-lru"]
    assert services["state-redis"]["command"][-2:] == ["--maxmemory-policy", "noeviction"]


def test_everything_that_others_wait_for_tells_its_health(services: dict[str, Any]) -> None:
    # A Redis for KV that is dead must stop nothing; the setup ends.
    otherwise = {"kv-redis": "service_started", "setup": "service_completed_successfully"}
    for service in services.values():
        for waited_for, how in service.get("depends_on", {}).items():
            assert how["condition"] == otherwise.get(waited_for, "service_healthy")
            assert waited_for == "setup" or "healthcheck" in services[waited_for]


def test_images_are_built_from_files_that_exist(services: dict[str, Any]) -> None:
    for service in services.values():
        if "build" in service:
            dockerfile = ROOT / service["build"]["dockerfile"]
            copied = [
                line.split()[1]
                for line in dockerfile.read_text().splitlines()
                if line.startswith("COPY")
            ]
            assert all((ROOT / path).exists() for path in copied), copied
