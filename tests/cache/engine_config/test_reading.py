"""Reading configuration files: of which kind they are, what they say, and where."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.engine_config import ConfigKind, covered, lint_configs, read_config
from cache.engine_config.view import Process, Program
from cache.errors import EngineConfigError
from prompts.lint.source_file import SourceFile

COMPOSE = """\
x-common: &common
  environment: {A: "1", B: "${B:-two}"}
services:
  engine:
    <<: *common
    image: lmsysorg/sglang:v0.5.23
    entrypoint: [bash, -lc]
    command:
      - |
        set -e
        exec python3 -m sglang.launch_server --model-path "${MODEL:-/m}" --page-size 64 \\
          --enable-lmcache
  tier:
    image: lmcache/standalone
    environment: [LMCACHE_TRACK_USAGE=false]
    shm_size: 16gb
    command: >
      lmcache server --l1-size-gb 8
      --eviction-policy LRU
  kv:
    image: redis:7
    command: ["redis-server", "--maxmemory", "8gb"]
  ui: {image: nginx}
"""
MANIFEST = """\
apiVersion: v1
kind: Service
metadata: {name: engine}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: engine}
spec:
  template:
    spec:
      hostNetwork: true
      containers:
        - name: sglang
          image: lmsysorg/sglang
          command: [python3, -m, sglang.launch_server]
          args: [--model-path, /m, --host, 0.0.0.0]
          env:
            - {name: HF_HUB_OFFLINE, value: "1"}
            - name: TOKEN
              valueFrom: {secretKeyRef: {name: hub, key: token}}
"""


SIDECAR = """\
apiVersion: v1
kind: Pod
spec:
  initContainers:
    - name: fetch
      image: lmsysorg/sglang
      command: [python3, -m, sglang.launch_server, --model-path, /other]
    - name: tier
      restartPolicy: Always
      image: lmcache/standalone
      command: [lmcache, server, --chunk-size, "256"]
  containers:
    - name: sglang
      image: lmsysorg/sglang
      command: [python3, -m, sglang.launch_server, --model-path, /m]
"""


def source(text: str, name: str = "-") -> SourceFile:
    return SourceFile(Path(name), text.encode())


def values(process: Process) -> dict[str, tuple[str, ...]]:
    return {setting.name: setting.values for setting in process.settings}


def test_what_starts_before_a_pods_containers_and_stays_is_one_of_them() -> None:
    engine, tier = read_config(source(SIDECAR, "pod.yaml"))
    assert values(engine)["model_path"] == ("/m",)
    assert (tier.program, values(tier)["chunk_size"]) == (Program.TIER, ("256",))


def test_a_command_is_read_with_its_environment_and_places() -> None:
    text = "é=1\nHF_HOME=/hf python -m sglang.launch_server --model /m --page-size=16 --tp 2\n"
    (engine,) = read_config(source(text))
    assert engine.program is Program.ENGINE
    assert engine.whole
    assert engine.on_host
    assert not engine.guarded
    assert values(engine) == {"model_path": ("/m",), "page_size": ("16",), "tp_size": ("2",)}
    assert engine.environment["HF_HOME"].text == "/hf"
    place = engine.place("page_size")
    assert (place.line, place.column) == (2, 55)
    assert text.encode()[place.start : place.stop] == b"--page-size=16"


def test_compose_services_are_read_with_what_surrounds_them() -> None:
    engine, tier, redis, other = read_config(source(COMPOSE))
    assert values(engine) == {"model_path": ("/m",), "page_size": ("64",), "enable_lmcache": ()}
    assert engine.environment["B"].text == "two"
    assert engine.place("page_size").line == 11
    assert values(tier) == {"l1_size_gb": ("8",), "eviction_policy": ("LRU",)}
    assert tier.place("eviction_policy").line == 19
    assert tier.container is not None
    assert (tier.container.name, tier.container.shm_bytes) == ("tier", 16 << 30)
    assert (redis.program, values(redis)) == (Program.REDIS, {"maxmemory": ("8gb",)})
    assert other.program is Program.OTHER


def test_manifests_are_read_document_by_document() -> None:
    (engine,) = read_config(source(MANIFEST))
    assert values(engine) == {"model_path": ("/m",), "host": ("0.0.0.0",)}
    assert engine.environment["HF_HUB_OFFLINE"].text == "1"
    assert not engine.environment["TOKEN"].known
    assert engine.container is not None
    assert engine.container.host_network


def test_an_engines_own_words_are_read_with_what_they_leave_open() -> None:
    text = '{"model_path": "/m",\n "page_size": 16, "api_key": null, "labels": ["a", "b"]}'
    (engine,) = read_config(source(text))
    assert engine.resolved
    assert not engine.on_host
    assert engine.number("page_size") == 16
    assert engine.lacks("api_key")
    assert engine.place("api_key").line == 2
    assert values(engine)["labels"] == ("a", "b")


def test_redis_and_lmcache_and_sglang_files_are_known_by_their_content() -> None:
    (redis,) = read_config(source('# KV\nport 6380\nsave ""\nMaxMemory 1gb\n'))
    assert values(redis) == {"port": ("6380",), "save": ("",), "maxmemory": ("1gb",)}
    (client,) = read_config(source("mp_host: tier\nextra_config: {lmcache.mp.mq_timeout: 3}\n"))
    assert client.program is Program.TIER_CLIENT
    assert client.number("lmcache.mp.mq_timeout") == 3
    (engine,) = read_config(source("model: /m\nenable-metrics: true\ntp_size: 2\n"))
    assert values(engine) == {
        "model_path": ("/m",), "enable_metrics": ("true",), "tp_size": ("2",),
    }  # fmt: skip


def test_docker_run_makes_a_container() -> None:
    text = (
        "docker run --gpus all --ipc=host -p 127.0.0.1:30000:30000 -e A=1 --name sgl image "
        "python3 -m foreword_guard.engine --model-path /m"
    )
    (engine,) = read_config(source(text))
    assert engine.guarded
    assert not engine.on_host
    assert engine.environment["A"].text == "1"
    assert engine.container is not None
    assert engine.container.name == "sgl"
    assert [(port.container_port, port.open) for port in engine.container.ports] == [(30000, False)]


def test_scripts_within_commands_are_opened() -> None:
    text = (
        "sudo docker run --ipc=host -p 8000:30000 image \\\n"
        "  bash -lc \"cd /x && python3 -m sglang.launch_server --model-path '$M' --tp 2\" \n"
        "conda run -n sgl bash -c 'export A=1\npython -m sglang.launch_server --model /m' > log &\n"
    )
    first, second = read_config(source(text, "start.sh"))
    assert values(first) == {"model_path": ("$M",), "tp_size": ("2",)}
    assert first.container is not None
    assert [port.container_port for port in first.container.ports] == [30000]
    assert first.place("tp_size").line == 2
    assert values(second) == {"model_path": ("/m",)}
    assert second.environment["A"].text == "1"


@pytest.mark.parametrize(
    "line",
    [
        "pkill -f sglang.launch_server",
        "apt-get install -y redis-server",
        "systemctl restart redis-server",
        "command -v redis-server || exit 1",
        "echo python -m sglang.launch_server --model-path /m",
        "docker logs engine | grep sglang",
        "python -m sglang.bench_serving --backend sglang",
    ],
)
def test_what_only_names_a_program_starts_none(line: str) -> None:
    text = f"{line}\npython -m sglang.launch_server --model-path /m\n"
    assert [p.at.place.line for p in read_config(source(text, "start.sh"))] == [2]


@pytest.mark.parametrize("rest", ["$EXTRA", '"${COMMON[@]}"', '"$@"', "--config e.yaml"])
def test_settings_that_are_elsewhere_leave_a_process_a_part(rest: str) -> None:
    (engine,) = read_config(source(f"python -m sglang.launch_server --model-path /m {rest}"))
    assert not engine.whole
    (known,) = read_config(source("python -m sglang.launch_server --model-path $MODEL"))
    assert known.whole


def test_pods_are_found_however_deep_they_are() -> None:
    text = (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: big}\n"
        "spec:\n  leaderWorkerTemplate:\n    leaderTemplate: &pod\n      spec:\n"
        "        containers:\n        - name: sglang\n          image: lmsysorg/sglang\n"
        "          command: [/bin/bash, -c]\n"
        "          args: ['sglang serve --model-path /m --host 0.0.0.0']\n"
        "    workerTemplate: *pod\n"
    )
    (engine,) = read_config(source(text))
    assert values(engine) == {"model_path": ("/m",), "host": ("0.0.0.0",)}


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ("8000", (8000, True)),
        ("8000:80", (80, True)),
        ("${PORT}:80", (80, True)),
        ("127.0.0.1:8000:80/tcp", (80, False)),
        ("127.0.0.1::80", (80, False)),
        ("[::]:8000:80", (80, True)),
        ("[::1]:8000:80", (80, False)),
        ("${ADDRESS:-127.0.0.1}:8000:80", (80, False)),
    ],
)
def test_published_ports_are_open_unless_they_are_on_loopback(
    port: str, expected: tuple[int, bool]
) -> None:
    text = f'services:\n  kv: {{image: redis, ports: ["{port}"]}}\n'
    (redis,) = read_config(source(text))
    assert redis.container is not None
    assert [(p.container_port, p.open) for p in redis.container.ports] == [expected]


@pytest.mark.parametrize(
    ("text", "name", "kind", "reason"),
    [
        ("hello world", "notes.txt", None, "nothing in it starts or configures"),
        ("services: [", "compose.yaml", None, "line 2:"),
        ("model-path: /m\napi-key: *secret\n", "e.yaml", None, "line 2: an alias has no anchor;"),
        ('{"model_path": ', "info.json", None, "line 1: it is no JSON object"),
        ("plain", "x", ConfigKind.SERVER_INFO, "it is no JSON object"),
        ("a: b", "x", ConfigKind.COMPOSE, "nothing in it starts or configures"),
        ("port '6380", "redis.conf", ConfigKind.REDIS, "No closing quotation"),
        ("[" * 100_000, "deep.yaml", None, "nest"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_a_reason(
    text: str, name: str, kind: ConfigKind | None, reason: str
) -> None:
    with pytest.raises(EngineConfigError) as refused:
        read_config(source(text, name), kind)
    assert refused.value.path == Path(name)
    assert reason in refused.value.reason


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(EngineConfigError, match="not UTF-8"):
        read_config(SourceFile(Path("x"), b"--a \xff"))


FRAGMENTS = st.sampled_from(
    [
        "services:\n", "  a:\n", "    command: ", "[lmcache, server]", "lmcache server ", "--port ",
        "redis-server ", "--l2-adapter ", '\'{"type":"resp"}\'', "{", "}", "<<: *a", "&a ", "- ",
        "apiVersion: v1\nkind: Pod\n", "spec:\n", "containers:\n", "ports: [", "]", "\n", " ",
        "é🙂",
        "image: redis\n", "ipc: service:a\n", "shm_size: 9999999999999999999gb\n", "'", '"', "#",
        '{"model_path": "/m", ', '"page_size": 1e999', "mp_host: 1\n", "maxmemory 1\n", "\r\n", "1",
        "python -m sglang.launch_server ", "--enable-lmcache ", "--page-size 0 ",
        "--chunk-size nan ", "--api-key ", '"password":', "HF_TOKEN=", "ü'x\"y", "requirepass ",
    ]
)  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=30), st.sampled_from([None, *ConfigKind]))
def test_any_text_is_judged_or_refused_and_places_are_in_the_file(
    fragments: list[str], kind: ConfigKind | None
) -> None:
    file = source("".join(fragments), "x.yaml" if len(fragments) % 2 else "x")
    try:
        findings = lint_configs([file], kind).findings
    except EngineConfigError:
        return
    hidden = covered(file, kind)
    assert (len(hidden.data), hidden.line_starts) == (len(file.data), file.line_starts)
    for finding in findings:
        assert 0 <= finding.place.start <= finding.place.stop <= len(file.data)
