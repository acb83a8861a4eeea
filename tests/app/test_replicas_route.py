"""`/foreword/replicas` and `foreword replicas` on a gateway with two engines."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from click.testing import CliRunner, Result

from app.admission.direct import open_store
from app.admission.keys import NewKey
from app.admission.store import OPERATOR
from app.callers import Role
from app.cli import main
from app.settings import ReplicasSettings
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

CHAT = {
    "model": "default",
    "max_tokens": 4,
    "messages": [{"role": "user", "content": "What is a ferry?"}],
}


@pytest.fixture
def second(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    """Slow enough that an answer can be watched."""
    config = SimulatorConfig(
        model_path=tokenizer_folder, labels=("template", "tenant"), clock=ClockConfig(speedup=1)
    )
    with SimulatorThread(config) as running:
        yield running


@pytest.fixture
def two(simulator: SimulatorThread, second: SimulatorThread, tmp_path: Path) -> Iterator[str]:
    """A gateway with engine-0 and engine-1."""
    settings = gateway_settings(tmp_path, simulator.url).model_copy(
        update={"replicas": ReplicasSettings(urls=(simulator.url, second.url))}
    )
    with running_gateway(settings) as url:
        wait_until_ready(url)
        eventually(lambda: set(states(url).values()) == {"ready"})
        yield url


def eventually(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def listed(url: str) -> list[dict[str, object]]:
    told = httpx.get(f"{url}/foreword/replicas", trust_env=False).raise_for_status().json()
    assert isinstance(told["data"], list)
    return told["data"]


def states(url: str) -> dict[str, object]:
    return {str(replica["name"]): replica["state"] for replica in listed(url)}


def post(base: str, path: str, **body: object) -> httpx.Response:
    return httpx.post(f"{base}/foreword/replicas{path}", json=body, trust_env=False)


def ask(url: str, **more: object) -> str:
    """The replica that answered."""
    answer = httpx.post(f"{url}/v1/chat/completions", json=CHAT | more, timeout=60, trust_env=False)
    return str(answer.raise_for_status().json()["foreword"]["replica"])


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["replicas", *arguments])


@pytest.mark.slow
def test_all_that_is_known_of_each_is_told(two: str, simulator: SimulatorThread) -> None:
    first, second = listed(two)
    assert (first["name"], first["url"], first["state"]) == ("engine-0", simulator.url, "ready")
    assert first["breaker"] == {"state": "closed", "failures": 0, "retry_in_s": 0.0}
    assert first["reason"] is None
    assert isinstance(first["version"], str)
    assert first["cache"]["kv_events"] is True  # type: ignore[index]
    assert second["cache"]["kv_events"] is False  # type: ignore[index]
    assert first["load"]["in_flight"] == 0  # type: ignore[index]


@pytest.mark.slow
def test_a_cordoned_replica_gets_no_requests_until_it_is_uncordoned(two: str) -> None:
    assert post(two, "/engine-0/cordon").json()["state"] == "cordoned"
    assert {ask(two) for _ in range(3)} == {"engine-1"}
    assert post(two, "/engine-0/uncordon").json()["state"] == "ready"
    assert post(two, "/engine-1/cordon").json()["state"] == "cordoned"
    assert {ask(two) for _ in range(3)} == {"engine-0"}


@pytest.mark.slow
def test_with_all_cordoned_the_gateway_is_not_ready_and_says_so(two: str) -> None:
    for name in ("engine-0", "engine-1"):
        post(two, f"/{name}/cordon")
    ready = httpx.get(f"{two}/readyz", trust_env=False)
    assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
    refused = httpx.post(f"{two}/v1/chat/completions", json=CHAT, trust_env=False)
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "engine_not_ready"


@pytest.mark.slow
def test_a_drained_replica_finishes_its_answer_and_is_gone(two: str) -> None:
    post(two, "/engine-0/cordon")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, two, max_tokens=60)
        eventually(lambda: listed(two)[1]["load"]["in_flight"] == 1)  # type: ignore[index]
        assert post(two, "/engine-1/drain").json()["state"] == "draining"
        assert answer.result(60) == "engine-1"
    eventually(lambda: states(two) == {"engine-0": "cordoned"})


@pytest.mark.slow
def test_a_replica_is_added_and_removed_while_the_gateway_runs(
    gateway: str, second: SimulatorThread
) -> None:
    added = post(gateway, "", url=f"{second.url}/")
    assert added.status_code == 201, added.text
    name = urlsplit(second.url).netloc
    assert (added.json()["name"], added.json()["url"]) == (name, second.url)
    eventually(lambda: states(gateway)[name] == "ready")
    post(gateway, "/engine-0/cordon")
    assert ask(gateway) == name
    post(gateway, "/engine-0/uncordon")
    gone = httpx.delete(f"{gateway}/foreword/replicas/{name}", trust_env=False)
    assert gone.json() == {"name": name, "object": "foreword.replica.deleted", "deleted": True}
    assert set(states(gateway)) == {"engine-0"}
    assert ask(gateway) == "engine-0"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"url": "http://user:secret@10.0.0.1"}, "user name or password"),
        ({"url": "file:///etc/passwd"}, "http:// or https://"),
        ({"url": "http://169.254.169.254/latest"}, "link-local"),
        ({"url": "http://nowhere.invalid"}, "has no address"),
        ({"url": "http://10.0.0.1", "name": "../x"}, "name: "),
        ({"url": "http://10.0.0.1", "engine": "y"}, "engine: "),
        ({}, "url: "),
    ],
)
def test_a_bad_url_is_refused_in_one_sentence(
    gateway: str, body: dict[str, object], says: str
) -> None:
    refused = post(gateway, "", **body)
    assert refused.status_code == 400
    assert says in refused.json()["error"]["message"]
    assert set(states(gateway)) == {"engine-0"}


def test_the_gateway_and_a_replica_there_is_are_refused(
    gateway: str, simulator: SimulatorThread
) -> None:
    itself = post(gateway, "", url=gateway)
    assert "this gateway itself" in itself.json()["error"]["message"]
    twice = post(gateway, "", url=simulator.url)
    assert (twice.status_code, twice.json()["error"]["param"]) == (400, "url")


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain"])
def test_a_replica_that_there_is_not_is_a_404(gateway: str, verb: str) -> None:
    missing = post(gateway, f"/engine-9/{verb}")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "replica_not_found"
    assert "engine-0" in missing.json()["error"]["message"]


@pytest.mark.slow
def test_operators_do_the_same_by_command(two: str, second: SimulatorThread) -> None:
    shown = run("list", "--url", two)
    assert shown.exit_code == 0, shown.output
    heading, first, other = shown.stdout.splitlines()
    assert heading.split()[:4] == ["NAME", "URL", "STATE", "BREAKER"]
    assert first.split()[:4:2] == ["engine-0", "ready"]
    assert other.startswith(f"engine-1  {second.url}")
    cordoned = run("cordon", "engine-1", "--url", two)
    assert cordoned.stdout == f"engine-1 at {second.url} is cordoned\n"
    told = json.loads(run("list", "--format", "json", "--url", two).stdout)
    assert told["schema_version"] == 1
    assert [replica["state"] for replica in told["data"]] == ["ready", "cordoned"]
    assert run("uncordon", "engine-1", "--url", two).stdout.endswith("is ready\n")
    # The gateway logs to the same stdout, since it runs in this process.
    assert "\nengine-1 is removed\n" in "\n" + run("remove", "engine-1", "--url", two).stdout
    added = run("add", second.url, "--name", "blue", "--url", two)
    assert f"blue at {second.url} is " in added.stdout
    assert "blue at " in run("drain", "blue", "--url", two).stdout
    missing = run("cordon", "green", "--url", two)
    assert (missing.exit_code, "no replica 'green'" in missing.stderr) == (2, True)


@pytest.mark.slow
def test_replicas_are_found_by_dns(simulator: SimulatorThread, tmp_path: Path) -> None:
    port = urlsplit(simulator.url).port
    found = ReplicasSettings(discovery="dns", dns=f"localhost:{port}", discover_s=0.2)
    settings = gateway_settings(tmp_path, "http://127.0.0.1:9").model_copy(
        update={"replicas": found}
    )
    with running_gateway(settings) as url:
        wait_until_ready(url)
        assert states(url)[f"127.0.0.1:{port}"] == "ready"
        assert ask(url) == f"127.0.0.1:{port}"


@pytest.mark.slow
def test_a_name_that_is_not_found_is_told_until_it_is(tmp_path: Path) -> None:
    found = ReplicasSettings(discovery="dns", dns="engines.invalid:30000", discover_s=0.2)
    settings = gateway_settings(tmp_path, "http://127.0.0.1:9").model_copy(
        update={"replicas": found}
    )
    with running_gateway(settings) as url:
        ready = httpx.get(f"{url}/readyz", trust_env=False)
        assert ready.status_code == 503
        assert "engines.invalid can't be looked up" in ready.json()["reasons"][0]
        told = httpx.get(f"{url}/foreword/replicas", trust_env=False).json()
        assert (told["data"], "engines.invalid" in told["source_problem"]) == ([], True)


def test_what_operators_do_is_written_down(gateway: str) -> None:
    post(gateway, "/engine-0/cordon")
    post(gateway, "/engine-0/uncordon")
    log = httpx.get(f"{gateway}/foreword/audit", trust_env=False).raise_for_status().json()
    assert [entry["action"] for entry in log["data"][:2]] == ["replica.uncordon", "replica.cordon"]
    assert log["data"][0]["target"] == "engine-0"


@pytest.mark.slow
@pytest.mark.parametrize("role", [Role.USER, Role.MONITOR])
def test_only_an_admins_key_sees_and_changes_replicas(
    simulator: SimulatorThread, tmp_path: Path, role: Role
) -> None:
    with open_store(tmp_path, None) as store:
        store.create(NewKey(tenant="ops", role=Role.ADMIN), by=OPERATOR)
        key = store.create(NewKey(tenant="acme", role=role), by=OPERATOR).key
    with running_gateway(gateway_settings(tmp_path, simulator.url)) as url:
        headers = {"authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
            tried = [
                client.get("/foreword/replicas"),
                client.post("/foreword/replicas", json={"url": "http://10.0.0.1"}),
                client.post("/foreword/replicas/engine-0/cordon"),
                client.post("/foreword/replicas/engine-0/drain"),
                client.post("/foreword/replicas/engine-9/drain"),
                client.delete("/foreword/replicas/engine-0"),
            ]
        assert {answer.status_code for answer in tried} == {403}
