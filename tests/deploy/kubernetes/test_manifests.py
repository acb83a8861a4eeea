"""The Kubernetes manifests: against the API's own schemas, the typed settings and each other."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.fleet.kubernetes import ClusterApi, KubernetesDiscovery
from app.settings import Settings, TiersSettings
from app.tiers import Tiers, check_tiers
from cache.engine_config.known_flags import sglang_flags, tier_flags
from cache.tiers import TierSettings, engine_config, guard_environment, server_arguments
from tests.deploy.grafana.exported import gateway_names, names_in_query
from tests.postgres_server import PostgresServer

FOLDER = Path(__file__).parents[3] / "deploy/kubernetes"
# preStop.sleep is on by default since 1.30.
VERSIONS = ("1.30", "1.34", kubernetes_validate.latest_version())
HOME = Path("/var/lib/foreword")
TIERS = TierSettings(chunk_tokens=256, page_tokens=64, ram_gb=16, ssd_gb=90, redis=None)
Manifest = dict[str, Any]


def resources(folder: Path) -> Iterator[Manifest]:
    """What a kustomization consists of, before namespace and images are put in."""
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for name in told.get("resources", []) + told.get("components", []):
        path = (folder / name).resolve()
        if path.is_dir():
            yield from resources(path)
        else:
            yield from yaml.safe_load_all(path.read_text())


ALL = [*resources(FOLDER / "example"), *resources(FOLDER / "first-key")]


def one(kind: str, name: str) -> Manifest:
    """The manifest of that kind and name."""
    (found,) = (m for m in ALL if m["kind"] == kind and m["metadata"]["name"] == name)
    return found


def pod_specs() -> dict[str, Manifest]:
    """Of everything that makes pods, by its name."""
    return {m["metadata"]["name"]: m["spec"]["template"]["spec"] for m in ALL if makes_pods(m)}


def makes_pods(manifest: Manifest) -> bool:
    return manifest["kind"] in {"Deployment", "StatefulSet", "Job"}


def engine_and_tier() -> tuple[Manifest, Manifest]:
    """The tier server is a sidecar: it starts before the engine and ends after it."""
    spec = pod_specs()["foreword-engine"]
    (engine,) = spec["containers"]
    (tier,) = (each for each in spec["initContainers"] if each.get("restartPolicy") == "Always")
    return engine, tier


def containers(spec: Manifest) -> list[Manifest]:
    """Those that start the pod among them."""
    return [*spec.get("initContainers", []), *spec["containers"]]


def labels_match(selector: Manifest, labels: dict[str, str]) -> bool:
    """As the cluster does it."""
    exact = selector.get("matchLabels", {}).items() <= labels.items()
    return exact and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_cluster_knows_every_field(version: str) -> None:
    for manifest in ALL:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_field_that_it_does_not_know_is_seen() -> None:
    wrong = json.loads(json.dumps(one("Deployment", "foreword-gateway")))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("name", ["example", "first-key"])
def test_kustomize_renders_it(name: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    command = ["kubectl", "kustomize", str(FOLDER / name)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rendered = list(yaml.safe_load_all(done.stdout))
    kinds = sorted((m["kind"], m["metadata"]["name"]) for m in rendered)
    assert kinds == sorted((m["kind"], m["metadata"]["name"]) for m in resources(FOLDER / name))
    assert all(m["metadata"]["namespace"] == "foreword" for m in rendered)
    images = re.findall(r"image: (\S+)", done.stdout)
    assert all("foreword-" not in image or image.startswith("registry.") for image in images)
    for manifest in rendered:
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)


def test_what_is_mounted_and_named_is_there() -> None:
    made = {(m["kind"], m["metadata"]["name"]) for m in ALL}
    for manifest in filter(makes_pods, ALL):
        spec = manifest["spec"]["template"]["spec"]
        claims = manifest["spec"].get("volumeClaimTemplates", [])
        volumes = {v["name"] for v in spec.get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in claims}
        for container in containers(spec):
            assert {m["name"] for m in container["volumeMounts"]} <= volumes, container["name"]
            for source in container.get("envFrom", []):
                assert ("ConfigMap", source["configMapRef"]["name"]) in made
        selector = manifest["spec"].get("selector")
        labels = manifest["spec"]["template"]["metadata"]["labels"]
        assert selector is None or labels_match(selector, labels)


def test_no_pod_has_more_rights_than_it_needs() -> None:
    for name, spec in pod_specs().items():
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in containers(spec):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert "memory" in container["resources"]["limits"], name
        if name != "foreword-gateway":
            assert spec["automountServiceAccountToken"] is False, name


def test_the_gateways_variables_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    told = one("ConfigMap", "foreword-gateway")["data"]
    for name, value in told.items():
        section, _, setting = name.removeprefix("FOREWORD_").lower().partition("__")
        field = Settings.model_fields[section]
        known = getattr(field.annotation, "model_fields", {})
        assert not setting or setting.removesuffix("_file") in known, name
        if not name.endswith("_FILE"):
            monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.replicas.discovery == "kubernetes"
    assert [tier.value for tier in settings.engine.tiers] == ["gpu", "ram", "ssd"]
    assert settings.gateway.allow_without_keys is False
    services = {m["metadata"]["name"] for m in ALL if m["kind"] == "Service"}
    redis = settings.gateway.redis_url
    assert redis is not None
    assert re.split("[/:]+", redis.get_secret_value())[1] in services


def test_discovery_asks_for_the_engines_service_and_may() -> None:
    (gateway,) = pod_specs()["foreword-gateway"]["containers"]
    told = next(e["value"] for e in gateway["env"] if e["name"] == "FOREWORD_REPLICAS__KUBERNETES")
    text = told.replace("$(POD_NAMESPACE)", "foreword")
    api = ClusterApi(url="https://cluster", token_file=Path("token"), ca_file=None)
    KubernetesDiscovery.parse(text, api)
    _, service, port = re.split("[/:]", text)
    engines = one("Service", service)
    assert engines["spec"]["clusterIP"] == "None"
    assert int(port) in [each["port"] for each in engines["spec"]["ports"]]
    engine = one("StatefulSet", "foreword-engine")
    assert engine["spec"]["serviceName"] == service
    labels = engine["spec"]["template"]["metadata"]["labels"]
    assert engines["spec"]["selector"].items() <= labels.items()
    (rule,) = one("Role", "foreword-replicas")["rules"]
    assert rule == {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["list"],
    }
    (subject,) = one("RoleBinding", "foreword-replicas")["subjects"]
    assert subject["name"] == pod_specs()["foreword-gateway"]["serviceAccountName"]


def test_every_flag_is_one_that_the_program_knows() -> None:
    engine, tier = engine_and_tier()
    for container, table in ((engine, sglang_flags()), (tier, tier_flags())):
        flags = [w.partition("=")[0] for w in container["args"] if w.startswith("--")]
        assert [flag for flag in flags if table.find(flag) is None] == []


def test_the_tier_is_told_what_the_typed_settings_say() -> None:
    told = server_arguments(
        TIERS,
        host="127.0.0.1",
        port=5556,
        http_port=8090,
        prometheus_port=9095,
        shm_name="foreword",
        ssd_path="/var/lib/kv",
    )
    sizes = one("ConfigMap", "foreword-model")["data"]
    _, tier = engine_and_tier()
    written = [
        re.sub(r"\$\((\w+)\)", lambda found: sizes[found[1]], argument)
        for argument in tier["args"][1:]
    ]
    # The engine asks within the pod, the gateways from without.
    in_pod = [
        ("--http-host", ["127.0.0.1"]) if n == "--http-host" else (n, v) for n, v in parsed(written)
    ]
    assert ("--http-host", ["0.0.0.0"]) in parsed(written)
    assert in_pod == parsed(told)


def test_a_config_map_from_before_is_enough() -> None:
    """Who brings `foreword-model` from an earlier version has no `TOOL_CALL_PARSER` in it."""
    before = one("ConfigMap", "foreword-model")["data"].keys() - {"TOOL_CALL_PARSER"}
    for container in engine_and_tier():
        sources = [source["configMapRef"]["name"] for source in container["envFrom"]]
        assert sources[-1] == "foreword-model", "what is set there holds"
        known = before.union(*(one("ConfigMap", name)["data"] for name in sources[:-1]))
        named = re.findall(r"\$\((\w+)\)", " ".join(container["args"]))
        assert [name for name in named if name not in known] == []


def test_gateways_find_each_engines_tier_server_beside_it() -> None:
    port = int(one("ConfigMap", "foreword-gateway")["data"]["FOREWORD_TIERS__PORT"])
    _, tier = engine_and_tier()
    assert f"--http-port={port}" in tier["args"]
    assert {"name": "tier-http", "containerPort": port} in tier["ports"]
    assert tier["livenessProbe"]["httpGet"] == {"path": "/healthcheck", "port": "tier-http"}
    settings = Settings(tiers=TiersSettings(port=port))
    check_tiers(settings)
    client = Tiers(settings).of("engine-0", "http://10.1.2.3:30000").client
    assert client is not None
    assert client.url == f"http://10.1.2.3:{port}"


def parsed(arguments: list[str]) -> list[tuple[str, object]]:
    """`--a=1`, or `--a` and `1`, as names and values; JSON as what it says."""
    joined = " ".join(a.replace(" ", "") for a in arguments)
    pairs = [part.replace("=", " ", 1).split(" ") for part in re.split(r" (?=--)", joined)]
    return [
        (pair[0], json.loads(pair[1]) if pair[1:] and pair[1][0] == "{" else pair[1:])
        for pair in pairs
    ]


def test_engine_and_tier_meet_in_their_pod() -> None:
    written = yaml.safe_load(one("ConfigMap", "foreword-lmcache")["data"]["lmcache.yaml"])
    assert written == yaml.safe_load(engine_config(TierSettings(), host="127.0.0.1", port=5556))
    spec = pod_specs()["foreword-engine"]
    engine, tier = engine_and_tier()
    environment = {each["name"]: each.get("value") for each in engine["env"]}
    assert guard_environment(TIERS).items() <= environment.items()
    shared = [m for c in (engine, tier) for m in c["volumeMounts"] if m["name"] == "shm"]
    assert [mount["mountPath"] for mount in shared] == ["/dev/shm", "/dev/shm"]
    (shm,) = (volume for volume in spec["volumes"] if volume["name"] == "shm")
    ram = int(one("ConfigMap", "foreword-model")["data"]["RAM_GB"])
    assert shm["emptyDir"]["medium"] == "Memory"
    assert int(shm["emptyDir"]["sizeLimit"].removesuffix("Gi")) > ram
    assert int(tier["resources"]["limits"]["memory"].removesuffix("Gi")) > ram


def test_a_pod_that_stops_has_time_for_what_is_under_way() -> None:
    drain_s = int(one("ConfigMap", "foreword-gateway")["data"]["FOREWORD_GATEWAY__DRAIN_S"])
    gateway, engine = (pod_specs()[name] for name in ("foreword-gateway", "foreword-engine"))
    wait = gateway["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert gateway["terminationGracePeriodSeconds"] > drain_s + wait
    wait = engine["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    # The gateways look for replicas every so often, and cut what a lost engine has.
    assert wait > 2 * Settings().replicas.discover_s
    assert engine["terminationGracePeriodSeconds"] > wait + 60
    # A sidecar is stopped after the engine, which goes on loading until then.
    _, tier = engine_and_tier()
    assert tier["restartPolicy"] == "Always"


def test_probes_ask_what_they_are_for() -> None:
    gateway = pod_specs()["foreword-gateway"]["containers"][0]
    assert gateway["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert gateway["startupProbe"]["httpGet"]["path"] == "/livez"
    assert gateway["readinessProbe"]["httpGet"]["path"] == "/readyz"


def may_reach(source: dict[str, str], target: dict[str, str], port: int) -> bool:
    """Whether the policies let a pod of our namespace in; several policies add up."""
    chosen = [
        m["spec"]
        for m in ALL
        if m["kind"] == "NetworkPolicy" and labels_match(m["spec"]["podSelector"], target)
    ]
    assert chosen, "no policy: everybody may"
    return any(
        port in [each["port"] for each in rule["ports"]]
        and (
            "from" not in rule
            or any(
                "podSelector" in peer and labels_match(peer["podSelector"], source)
                for peer in rule["from"]
            )
        )
        for spec in chosen
        for rule in spec.get("ingress", [])
    )


def test_only_gateways_reach_engines_and_state() -> None:
    labels = {
        m["metadata"]["name"]: m["spec"]["template"]["metadata"]["labels"]
        for m in filter(makes_pods, ALL)
    }
    doors = {
        "foreword-engine": (30000, 5557, 5558, 8090),
        "foreword-postgres": (5432,),
        "foreword-state-redis": (6379,),
    }
    for target, ports in doors.items():
        for port in ports:
            allowed = {name for name in labels if may_reach(labels[name], labels[target], port)}
            expected = {"foreword-gateway"}
            if target != "foreword-engine":
                expected.add("foreword-first-key")
            assert allowed == expected, (target, port)
            assert not may_reach({"app": "stranger"}, labels[target], port)
    assert may_reach({"app": "stranger"}, labels["foreword-gateway"], 8400)
    assert not may_reach(labels["foreword-gateway"], labels["foreword-engine"], 5556)


def test_the_service_sends_requests_to_gateways_alone() -> None:
    selector = one("Service", "foreword")["spec"]["selector"]
    chosen = [
        m["metadata"]["name"]
        for m in filter(makes_pods, ALL)
        if selector.items() <= m["spec"]["template"]["metadata"]["labels"].items()
    ]
    assert chosen == ["foreword-gateway"]


def test_scalers_scale_what_is_there_by_what_is_exported() -> None:
    rules = yaml.safe_load((FOLDER / "autoscaling/adapter-rules.yaml").read_text())
    offered = {}
    for rule in rules["rules"]["external"]:
        assert names_in_query(rule["metricsQuery"]) <= gateway_names()
        offered[rule["name"]["as"]] = rule
    asked = set()
    for manifest in ALL:
        if manifest["kind"] == "HorizontalPodAutoscaler":
            target = manifest["spec"]["scaleTargetRef"]
            assert one(target["kind"], target["name"])["spec"]["replicas"] >= 2
            for metric in manifest["spec"]["metrics"]:
                if metric["type"] == "External":
                    asked.add(metric["external"]["metric"]["name"])
    assert asked == offered.keys()


def test_disruptions_leave_one_of_each() -> None:
    budgets = [m for m in ALL if m["kind"] == "PodDisruptionBudget"]
    for budget in budgets:
        chosen = [
            m
            for m in filter(makes_pods, ALL)
            if labels_match(budget["spec"]["selector"], m["spec"]["template"]["metadata"]["labels"])
        ]
        assert len(chosen) == 1
        assert chosen[0]["spec"]["replicas"] >= 2
    assert len(budgets) == 2


@pytest.mark.slow
def test_the_first_keys_job_makes_a_key(tmp_path: Path, postgres: PostgresServer) -> None:
    """Its own command, in folders of the test: a read-only mounted key, and a real PostgreSQL."""
    (container,) = pod_specs()["foreword-first-key"]["containers"]
    told = {each["name"]: each["value"] for each in container["env"]}
    (tmp_path / "hmac.key").write_bytes(os.urandom(32))
    (tmp_path / "url").write_text(postgres.create_database())
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    assert told == {"FOREWORD_HOME": str(HOME), "FOREWORD_DATABASE__URL_FILE": "/run/database/url"}
    environment = {
        "FOREWORD_HOME": str(home),
        "FOREWORD_DATABASE__URL_FILE": str(tmp_path / "url"),
        "HOME": "/nonexistent",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    shell, option, script = container["command"]
    script = script.replace("/run/hmac", str(tmp_path)).replace(str(HOME), str(home))
    command = [shell, option, script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fw-")
    assert "admin of operators" in done.stderr


def test_prometheus_is_told_to_scrape_ports_that_pods_declare(tmp_path: Path) -> None:
    """The jobs' names are those that dashboards and alerts ask for; scalers want the namespace."""
    jobs = yaml.safe_load((FOLDER / "prometheus/scrape.yaml").read_text())
    ports = {
        pod["metadata"]["labels"]["app.kubernetes.io/name"]: {
            str(port["containerPort"])
            for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
            for port in container.get("ports", [])
        }
        for pod in (m["spec"]["template"] for m in ALL if makes_pods(m))
    }
    assert [job["job_name"] for job in jobs] == ["gateway", "tier"]
    for job in jobs:
        asked = {rule["source_labels"][0]: rule for rule in job["relabel_configs"]}
        name = asked["__meta_kubernetes_pod_label_app_kubernetes_io_name"]["regex"]
        port = asked["__meta_kubernetes_pod_container_port_number"]["regex"]
        assert port in ports[name], job["job_name"]
        assert asked["__meta_kubernetes_namespace"]["target_label"] == "namespace"
        (discovery,) = job["kubernetes_sd_configs"]
        example = yaml.safe_load((FOLDER / "example/kustomization.yaml").read_text())
        assert discovery["namespaces"]["names"] == [example["namespace"]]
    promtool = shutil.which("promtool")
    if promtool is None:
        assert "CI" not in os.environ, "CI brings promtool"
        pytest.skip("no promtool here")
    key = tmp_path / "monitor.key"
    key.touch()
    jobs[0]["authorization"]["credentials_file"] = str(key)
    # Debian's Prometheus is built without the cluster's discovery; all else is checked.
    for job in jobs:
        job["static_configs"] = [{"targets": ["pod:1"]}]
        del job["kubernetes_sd_configs"]
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(yaml.safe_dump({"scrape_configs": jobs}))
    done = subprocess.run(
        [promtool, "check", "config", str(configuration)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
