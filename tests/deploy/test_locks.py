"""The lock of the gateway's image: part of the full lock, and enough for `foreword serve`."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import httpx
import pytest

from app.stack.ports import free_ports
from bench.engine_sim import SimulatorConfig, SimulatorThread
from tests.gateways import add_collection, wait_until_ready
from tests.processes import end
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

ROOT = Path(__file__).parents[2]
FULL, SERVE = ROOT / "requirements.lock", ROOT / "requirements-serve.lock"

_HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"{{name}} isn't in requirements-serve.lock", name=name)

sys.meta_path.insert(0, Hidden())
"""


def locked(path: Path) -> dict[str, frozenset[str]]:
    """`name==version` → the hashes of its files."""
    text = path.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = {line.split()[0]: frozenset(re.findall(r"--hash=(\S+)", line)) for line in lines}
    assert all(found.values())
    return found


def name_of(requirement: str) -> str:
    return re.sub("[-_.]+", "-", requirement.partition("==")[0]).lower()


def hidden() -> frozenset[str]:
    """Top-level modules of what is installed and in the full lock alone."""
    kept = {name_of(each) for each in locked(SERVE)} | {"foreword"}
    installed = {name_of(each.name) for each in distributions()}
    assert installed - kept, "everything is needed to serve?"
    return frozenset(
        module
        for module, owners in packages_distributions().items()
        if not kept.intersection(map(name_of, owners))
    )


def test_the_serve_lock_is_a_part_of_the_full_one() -> None:
    full, serve = locked(FULL), locked(SERVE)
    assert serve.items() <= full.items()
    left_out = {name_of(each) for each in full} - {name_of(each) for each in serve}
    tools = {
        "pytest",
        "playwright",
        "hypothesis",
        "mypy",
        "ruff",
        "sphinx",
        "openai",
        "compose-spec",
    }
    assert tools <= left_out
    needed = {
        "fastapi",
        "torch",
        "sentence-transformers",
        "faiss-cpu",
        "psycopg-binary",
        "hatchling",
    }
    assert needed.isdisjoint(left_out)


def test_the_image_has_the_serve_lock_alone() -> None:
    text = (ROOT / "deploy/images/gateway.Dockerfile").read_text()
    assert set(re.findall(r"requirements[\w-]*\.lock", text)) == {SERVE.name}


def _wait_until_listening(gateway: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{port}/livez", trust_env=False, timeout=60)
        except httpx.TransportError:
            assert gateway.poll() is None, "the gateway ended"
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[str]:
    """A gateway, and its child processes, that find nothing but what the serve lock names."""
    (tmp_path / "sitecustomize.py").write_text(_HIDING.format(hidden=hidden()))
    (port,) = free_ports(1)
    model = write_tokenizer(tmp_path / "tiny", chat_template=CHATML_TOOLS)
    with SimulatorThread(SimulatorConfig(model_path=model)) as engine:
        environment = os.environ | {
            "PYTHONPATH": str(tmp_path),
            "FOREWORD_HOME": str(tmp_path / "home"),
            "FOREWORD_ENGINE__URL": engine.url,
        }
        command = [str(Path(sys.executable).with_name("foreword")), "serve", "--port", str(port)]
        with (tmp_path / "log").open("wb") as log:
            gateway = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            _wait_until_listening(gateway, port)
            wait_until_ready(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            end(gateway)


@pytest.mark.slow
def test_what_the_serve_lock_names_is_enough(serving: str) -> None:
    """With the real embedding model, documents of each kind, the pages and the metrics."""
    store = add_collection(serving, "ferry", "Dogs travel for two euros. " * 20, within_s=300)
    with httpx.Client(base_url=serving, trust_env=False, timeout=120) as client:
        found = client.post(f"/v1/vector_stores/{store}/search", json={"query": "a dog's fare"})
        assert "two euros" in found.raise_for_status().text
        asked = {
            "model": "default", "messages": [{"role": "user", "content": "A dog?"}],
            "max_tokens": 4, "foreword": {"collection": "ferry"},
        }  # fmt: skip
        answer = client.post("/v1/chat/completions", json=asked).raise_for_status().json()
        assert answer["foreword"]["prompt_tokens"] > 20
        for path in ("/metrics", "/ui/", "/foreword/report?format=html", "/v1/models"):
            assert client.get(path).raise_for_status().text


def test_what_is_left_out_is_really_hidden(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_HIDING.format(hidden=hidden()))
    command = [sys.executable, "-c", "import pytest"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "requirements-serve.lock" in done.stderr


@pytest.mark.slow
def test_every_module_of_the_image_but_the_benchmarks_can_be_imported(tmp_path: Path) -> None:
    """What a command imports only when it runs is named nowhere else."""
    (tmp_path / "sitecustomize.py").write_text(_HIDING.format(hidden=hidden()))
    code = """
import importlib, pkgutil
for name in ("app", "prompts", "cache", "retrieval"):
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not found.name.endswith("__main__") and ".migrations" not in found.name:
            importlib.import_module(found.name)
"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
