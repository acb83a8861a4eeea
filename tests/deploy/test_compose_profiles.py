"""What each profile of the Compose file starts, and how what it starts is locked in."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from compose_spec import PyCompose

from app.secret_files import read_secret_files
from cache.engine_config.known_flags import sglang_flags, tier_flags
from tests.deploy import compose

ROOT = compose.ROOT
PROFILES = [
    {"gpu"},
    {"gpu", "replicas"},
    {"gpu", "replicas-4"},
    {"cpu"},
    {"gpu", "observability"},
]
named = pytest.mark.parametrize("profiles", PROFILES, ids=lambda those: "+".join(sorted(those)))


@pytest.mark.parametrize("values", [{}, compose.example()], ids=["defaults", ".env.example"])
def test_the_file_is_what_the_specification_allows(values: dict[str, str]) -> None:
    read = PyCompose.from_json(json.dumps(compose.interpolated(values)))
    read.validate()
    assert set(read.service_names()) == set(compose.services())


def test_the_example_has_every_variable_with_its_default() -> None:
    """COMPOSE_PROFILES is Compose's own."""
    told = compose.example()
    assert told.pop("COMPOSE_PROFILES") == "gpu,observability"
    assert told == compose.variables()


def test_the_example_for_a_cpu_names_variables_that_are_there_and_fits_a_laptop() -> None:
    told = compose.example(".env.cpu.example")
    assert told.pop("COMPOSE_PROFILES") == "cpu"
    assert told.keys() <= compose.variables().keys()
    tier = compose.services(told)["tier-cpu"]
    assert f"--l1-size-gb={told['RAM_GB']}" in tier["command"]
    assert int(tier["shm_size"].removesuffix("gb")) > int(told["RAM_GB"])


@named
def test_what_is_started_is_complete(profiles: set[str]) -> None:
    running = compose.started(profiles)
    for name, service in running.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in running or how.get("required") is False, (name, other)
        kind, _, owner = service.get("ipc", "").partition(":")
        assert kind != "service" or owner in running, name
    assert {"gateway", "postgres", "state-redis", "kv-redis"} <= running.keys()


@named
def test_every_image_of_ours_is_built_by_one_service(profiles: set[str]) -> None:
    """Services that build one tag at the same time fail on a machine that doesn't have it yet."""
    running = compose.started(profiles).values()
    ours = {service["image"] for service in running if service["image"].startswith("foreword-")}
    built = [service["image"] for service in running if "build" in service]
    assert sorted(built) == sorted(ours)


@named
def test_every_engine_has_one_name_and_one_tier(profiles: set[str]) -> None:
    running = compose.started(profiles)
    aliases = {name: alias(service) for name, service in running.items()}
    engines = [name for name, alias in aliases.items() if alias == "engines"]
    tiers = [name for name, alias in aliases.items() if alias == "tier"]
    assert len(engines) == {"replicas": 2, "replicas-4": 4}.get(max(profiles), 1)
    assert len(tiers) == 1
    assert all(running[name]["ipc"] == f"service:{tiers[0]}" for name in engines)
    told = running["gateway"]["environment"]
    assert told["FOREWORD_REPLICAS__DNS"] == "engines:30000"
    assert urlsplit(told["FOREWORD_TIERS__URL"]).hostname == "tier"


def alias(service: dict[str, Any]) -> str | None:
    """The name that a service shares with others, in the network of KV."""
    networks = service.get("networks", [])
    found = networks["kv"]["aliases"] if isinstance(networks, dict) else []
    return found[0] if found else None


def test_no_two_engines_have_one_gpu() -> None:
    running = compose.started({"gpu", "replicas-4"})
    gpus = []
    for name in ("engine", "engine-1", "engine-2", "engine-3"):
        (device,) = running[name]["deploy"]["resources"]["reservations"]["devices"]
        gpus += device["device_ids"]
    assert gpus == ["0", "1", "2", "3"]
    (device,) = running["tier"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["count"] == "all"


def test_without_a_gpu_nothing_asks_for_one() -> None:
    assert "nvidia" not in json.dumps(compose.started({"cpu"}))


@pytest.mark.parametrize("name", ["engine", "engine-cpu", "tier", "tier-cpu"])
def test_every_flag_is_one_that_the_program_knows(name: str) -> None:
    program, *arguments = compose.services()[name]["command"]
    table = sglang_flags() if program == "foreword_guard.engine" else tier_flags()
    flags = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    assert flags
    assert [flag for flag in flags if table.find(flag) is None] == []


def test_both_engines_serve_alike() -> None:
    """What the CPU's lacks or has beside is what belongs to the machine."""
    gpu, cpu = (set(compose.services()[name]["command"]) for name in ("engine", "engine-cpu"))
    assert {word.partition("=")[0] for word in gpu - cpu} == {
        "--mem-fraction-static",
        "--context-length",
    }
    assert {word.partition("=")[0] for word in cpu - gpu} == {
        "--device",
        "--dtype",
        "--max-total-tokens",
        "--sleep-on-idle",
    }


def test_nothing_has_more_rights_than_it_needs() -> None:
    for name, service in compose.services().items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "privileged" not in service, name
        root = service.get("user", "0").split(":")[0] == "0"
        assert root == (name in {"setup", "postgres"}), name


def test_only_two_networks_lead_out() -> None:
    networks = yaml.safe_load(compose.text())["networks"]
    inside = {name for name, network in networks.items() if network == {"internal": True}}
    assert networks.keys() - inside == {"front", "hub"}
    outside = {
        name
        for name, service in compose.services().items()
        if set(service.get("networks", [])) & {"front", "hub"}
    }
    engines = {"engine", "engine-1", "engine-2", "engine-3", "engine-cpu"}
    assert outside == {"gateway", "grafana"} | engines


def test_images_are_pinned() -> None:
    for name, service in compose.services().items():
        _, _, tag = service["image"].rpartition(":")
        assert re.match(r"v?\d+\.\d+|v?\d+\.\d+\.\d+", tag), name
    for dockerfile in (ROOT / "deploy/images").iterdir():
        lines = dockerfile.read_text().splitlines()
        bases = [line for line in lines if line.startswith("FROM")]
        assert all(":" in line and ":latest" not in line for line in bases)
        assert any(line.startswith("USER") for line in lines), "it runs as root"


def test_mounted_files_exist() -> None:
    for service in compose.services().values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (ROOT / source).exists(), source


def test_prometheus_and_grafana_find_each_other() -> None:
    running = compose.started({"gpu", "observability"})
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert jobs["gateway"]["static_configs"] == [{"targets": ["gateway:8400"]}]
    assert jobs["engines"]["dns_sd_configs"][0]["names"] == ["engines"]
    port = next(w for w in running["tier"]["command"] if w.startswith("--prometheus-port="))
    assert jobs["tier"]["static_configs"] == [{"targets": [f"tier:{port.split('=')[1]}"]}]
    assert "kv" in running["prometheus"]["networks"]
    provisioning = ROOT / "deploy/grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards/foreword.yml").read_text())[
        "providers"
    ]
    mounted = f"./deploy/grafana/dashboards:{provider['options']['path']}:ro"
    assert mounted in running["grafana"]["volumes"]


FOLDERS = ("kv-key", "database", "kv", "kv-keys", "models", "kernels", "state", "grafana")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    for name in FOLDERS:
        (tmp_path / name).mkdir()
    set_up(tmp_path)
    return tmp_path


def set_up(folder: Path) -> None:
    """What the service `setup` runs, for the user that runs the tests."""
    own = f"{os.getuid()}:{os.getgid()}"
    script = ROOT / "deploy/compose/setup.sh"
    subprocess.run(["sh", script, folder, own, own, own], check=True, capture_output=True)


def test_the_setup_sees_every_volume_it_makes() -> None:
    mounted = [volume.split(":")[1] for volume in compose.services()["setup"]["volumes"]]
    assert {Path(path).name for path in mounted if path.startswith("/made/")} == set(FOLDERS)


def test_keys_are_made_for_their_user_alone(made: Path) -> None:
    for name in ("kv-key/kv.key", "database/password", "database/url", "grafana/password"):
        assert stat.S_IMODE((made / name).stat().st_mode) == 0o600, name
    assert len((made / "kv-key/kv.key").read_bytes()) == 32
    assert len((made / "database/password").read_text()) == 48


def test_the_guard_takes_the_key(made: Path) -> None:
    source = "import sys; from pathlib import Path; from foreword_guard.aead import read_master_key"
    read = f"{source}; print(len(read_master_key(Path(sys.argv[1]))))"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "deploy/engine-guard/src")}
    command = [sys.executable, "-c", read, made / "kv-key/kv.key"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "32\n", done.stderr


def test_the_gateway_takes_the_databases_url(made: Path) -> None:
    environment = {"FOREWORD_DATABASE__URL_FILE": str(made / "database/url")}
    url = urlsplit(read_secret_files(environment)["database"]["url"])
    assert (url.scheme, url.username, url.hostname, url.path) == (
        "postgresql",
        "foreword",
        "postgres",
        "/foreword",
    )
    assert url.password == (made / "database/password").read_text()


def test_what_is_there_stays(made: Path) -> None:
    names = ("kv-key/kv.key", "database/password", "database/url")
    before = [(made / name).read_bytes() for name in names]
    (made / "kv-key/kv.key.new").write_bytes(b"half")
    set_up(made)
    assert [(made / name).read_bytes() for name in names] == before
