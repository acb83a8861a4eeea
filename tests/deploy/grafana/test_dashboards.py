"""Every query of every dashboard, asked of a real Prometheus over a real gateway's metrics."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import jsonschema_rs
import pytest
import yaml

from bench.engine_sim import ClockConfig, EventsConfig, SimulatorConfig, SimulatorThread
from tests.deploy.grafana.exported import (
    ROOT,
    engine_page,
    gateway_names,
    names_in_page,
    names_in_query,
    tier_page,
)
from tests.deploy.grafana.real_prometheus import Prometheus, needed, running_prometheus, served
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

GRAFANA = ROOT / "deploy/grafana"
FILES = sorted((GRAFANA / "dashboards").glob("*.json"))
# What a healthy gateway before one engine, without Redis, has no series of.
QUIET = frozenset(
    {
        "foreword_decisions_total",
        "foreword_failovers_total",
        "foreword_gateways",
        "foreword_limited_total",
        "foreword_lost_tokens_total",
        "foreword_redis_up",
        "foreword_replica_prefill_tokens_per_second",
        "foreword_replica_tier_open",
        "foreword_request_errors_total",
        "foreword_shared_views_up",
        "foreword_unknown_cached_requests_total",
        "foreword_wire_refused",
    }
)
_TARGET = {
    "type": "object",
    "required": ["refId", "expr", "datasource"],
    "properties": {"refId": {"pattern": "^[A-Z]$"}, "expr": {"type": "string", "minLength": 2}},
}
_PANEL = {
    "type": "object",
    "required": ["id", "type", "title", "gridPos"],
    "properties": {
        "type": {"enum": ["row", "timeseries", "stat", "table", "bargauge", "state-timeline"]},
        "gridPos": {
            "required": ["x", "y", "w", "h"],
            "properties": {"x": {"minimum": 0, "maximum": 23}, "w": {"minimum": 1, "maximum": 24}},
        },
        "targets": {"type": "array", "minItems": 1, "items": _TARGET},
    },
}
SCHEMA = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating", "time", "refresh"],
    "properties": {
        "uid": {"type": "string", "pattern": "^[a-z-]{1,40}$"},
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {"type": "array", "minItems": 5, "items": _PANEL},
    },
}


def queries(board: Path) -> list[tuple[str, str]]:
    """Each panel's title and expression."""
    panels = json.loads(board.read_text())["panels"]
    return [(p["title"], target["expr"]) for p in panels for target in p.get("targets", [])]


def first_name(query: str) -> str:
    """The series that decides whether there is anything to show."""
    return min(names_in_query(query), key=query.index)


def filled_in(query: str) -> str:
    """As Grafana sends it with all that can be chosen."""
    return re.sub(r"\$(template|tenant|replica)", ".*", query).replace("$__rate_interval", "1m")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    needed("prometheus")
    model = write_tokenizer(tmp_path_factory.mktemp("models") / "m", chat_template=CHATML_TOOLS)
    config = SimulatorConfig(
        model_path=model,
        labels=("template", "tenant"),
        clock=ClockConfig(speedup=20),
        events=EventsConfig(replay_endpoint="tcp://127.0.0.1:0", topic="kv"),
    )
    home = tmp_path_factory.mktemp("home")
    with (
        SimulatorThread(config) as simulator,
        running_gateway(gateway_settings(home, simulator.url)) as gateway,
        served(engine_page()) as engine,
        served(tier_page()) as tier,
    ):
        wait_until_ready(gateway)
        jobs = {
            "gateway": [urlsplit(gateway).netloc],
            "engines": [urlsplit(simulator.url).netloc, engine],
            "tier": [tier],
        }
        with running_prometheus(tmp_path_factory.mktemp("prometheus"), jobs) as running:
            ask(gateway)
            running.wait_for('sum(foreword_requests_total{status="ok"})', 6)
            ask(gateway)
            leave(gateway)
            running.wait_for('sum(foreword_requests_total{status="ok"})', 12)
            running.wait_for('sum(foreword_requests_total{status="aborted"})', 1)
            time.sleep(1.5)
            yield running


def ask(gateway: str) -> None:
    """Six questions with one long beginning, streams among them."""
    system = "You answer questions from the documents below. " * 20
    with httpx.Client(base_url=gateway, trust_env=False, timeout=30) as client:
        for number in range(6):
            messages = [
                {"role": "system", "content": system},
                {"role": "user", "content": f"Question {number}?"},
            ]
            body = {"model": "default", "messages": messages, "max_tokens": 8}
            body |= {"stream": number % 2 == 0}
            client.post("/v1/chat/completions", json=body).raise_for_status()


def leave(gateway: str) -> None:
    """A question whose asker goes away in the middle of the answer."""
    messages = [{"role": "user", "content": "Tell me everything."}]
    body = {"model": "default", "messages": messages, "max_tokens": 4000, "stream": True}
    url = f"{gateway}/v1/chat/completions"
    with (
        httpx.Client(trust_env=False, timeout=30) as client,
        client.stream("POST", url, json=body) as answer,
    ):
        next(answer.iter_lines())


def test_the_dashboards_are_what_is_made() -> None:
    command = [sys.executable, GRAFANA / "make.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [path.stem for path in FILES] == [
        "overview",
        "replicas",
        "templates",
        "tenants",
        "tiers",
    ]


@pytest.mark.parametrize("board", FILES, ids=lambda path: path.stem)
def test_a_dashboard_is_valid(board: Path) -> None:
    loaded = json.loads(board.read_text())
    jsonschema_rs.validator_for(SCHEMA).validate(loaded)
    panels = loaded["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert not overlapping(panels)
    chosen = {variable["name"] for variable in loaded["templating"]["list"]}
    asked = {name for _, query in queries(board) for name in re.findall(r"\$([a-z]+)", query)}
    assert asked <= chosen


def overlapping(panels: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """The ids of panels that lie on each other."""
    cells: dict[tuple[int, int], int] = {}
    found = []
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if (x, y) in cells:
                    found.append((cells[x, y], panel["id"]))
                cells[x, y] = panel["id"]
    return found


@pytest.mark.parametrize("board", FILES, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_what_is_exported(board: Path) -> None:
    known = gateway_names() | names_in_page(engine_page()) | names_in_page(tier_page())
    # The simulator's names are SGLang's; these two aren't in the captured page.
    known |= {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
    known |= {"sglang:evicted_tokens_total"}
    unknown = {name for _, query in queries(board) for name in names_in_query(query)} - known
    assert not unknown


def test_the_alerts_ask_for_what_is_exported() -> None:
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
    asked = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    unknown = {name for query in asked for name in names_in_query(query)}
    assert not unknown - gateway_names() - {"up"}


@pytest.mark.slow
@pytest.mark.parametrize("board", FILES, ids=lambda path: path.stem)
def test_every_query_is_answered(prometheus: Prometheus, board: Path) -> None:
    silent = [
        f"{title}: {query}"
        for title, query in queries(board)
        if not prometheus.query(filled_in(query)) and first_name(query) not in QUIET
    ]
    assert silent == []


@pytest.mark.slow
def test_the_figures_are_right(prometheus: Prometheus) -> None:
    """The hit rate's panel shows what the gateway counted."""
    overview = dict(queries(GRAFANA / "dashboards/overview.json"))
    (rate,) = prometheus.query(filled_in(overview["Hit rate"]))
    (best,) = prometheus.query(filled_in(overview["Best possible"]))
    (under_way,) = prometheus.query(overview["Requests under way"])
    assert 0.5 < float(rate["value"][1]) <= float(best["value"][1]) <= 1
    assert float(under_way["value"][1]) == 0


@pytest.mark.slow
def test_a_healthy_stack_raises_no_alarm(prometheus: Prometheus) -> None:
    assert prometheus.query('ALERTS{alertstate="firing"}') == []
    assert prometheus.query("count(up == 1)")[0]["value"][1] == "4"


@pytest.mark.slow
def test_promtool_takes_rules_and_configuration() -> None:
    promtool, folder = needed("promtool"), ROOT / "deploy/prometheus"
    for arguments in (
        ["check", "config", "--syntax-only", "prometheus.yml"],
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
    ):
        done = subprocess.run([promtool, *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_test() -> None:
    folder = ROOT / "deploy/prometheus"
    rules = yaml.safe_load((folder / "alerts.yml").read_text())
    tested = (folder / "alerts_test.yml").read_text()
    names = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert [name for name in names if not re.search(rf"\b{name}\b", tested)] == []


@pytest.mark.slow
def test_with_api_keys_prometheus_needs_a_monitors(tmp_path: Path) -> None:
    """And takes it from its file without a restart."""
    needed("prometheus")
    home = tmp_path / "home"
    make_key(home, "admin")
    key_file = tmp_path / "monitor.key"
    key_file.write_text("none\n")
    with running_gateway(gateway_settings(home, "http://127.0.0.1:1")) as gateway:
        jobs = {"gateway": [urlsplit(gateway).netloc], "engines": [], "tier": []}
        with running_prometheus(tmp_path, jobs, key_file=key_file) as prometheus:
            prometheus.wait_for('up{job="gateway"}', 0)
            key_file.write_text(make_key(home, "monitor"))
            prometheus.wait_for('up{job="gateway"}', 1)
            prometheus.wait_for("foreword_ready", 0)


def make_key(home: Path, role: str) -> str:
    """An API key of that role."""
    command = [Path(sys.executable).parent / "foreword", "keys", "create", "ops", "--direct"]
    command += ["--role", role, "--home", home]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout
