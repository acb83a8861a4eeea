"""A real Prometheus with the configuration of the Compose stack, on addresses of a test."""

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from app.stack.ports import free_ports
from tests.deploy.grafana.exported import ROOT

_FOLDER = ROOT / "deploy/prometheus"
_START_S = 90.0


def needed(program: str) -> str:
    """The program's path; the test is skipped without it."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed: apt-get install prometheus")
    return found


class Prometheus:
    """Answers PromQL."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def query(self, text: str) -> list[dict[str, Any]]:
        """All samples of an expression, now.

        Raises:
            AssertionError: it is no PromQL, or can't be evaluated.
        """
        answer = self._client.post("/api/v1/query", data={"query": text}).json()
        assert answer["status"] == "success", f"{text}: {answer.get('error')}"
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def wait_for(self, text: str, value: float) -> None:
        """Until an expression has that one value."""
        deadline = time.monotonic() + _START_S
        while [float(sample["value"][1]) for sample in self.query(text)] != [value]:
            assert time.monotonic() < deadline, f"{text} did not become {value}"
            time.sleep(0.2)

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            return self._client.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def running_prometheus(
    folder: Path, jobs: dict[str, list[str]], *, key_file: Path = _FOLDER / "no-key"
) -> Iterator[Prometheus]:
    """With the jobs of the shipped configuration.

    Args:
        jobs: the addresses of each.
        key_file: where the monitor's key is.
    """
    program = needed("prometheus")
    config = yaml.safe_load((_FOLDER / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(_FOLDER / name) for name in config["rule_files"]]
    assert {job["job_name"] for job in config["scrape_configs"]} == set(jobs)
    for job in config["scrape_configs"]:
        job.pop("dns_sd_configs", None)
        job["static_configs"] = [{"targets": jobs[job["job_name"]]}]
        if "authorization" in job:
            job["authorization"]["credentials_file"] = str(key_file)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (port,) = free_ports(1)
    command = [program, f"--config.file={folder}/prometheus.yml"]
    command += [f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60
        ) as client:
            prometheus = Prometheus(client)
            deadline = time.monotonic() + _START_S
            while not prometheus.is_ready():
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, "Prometheus did not start"
                time.sleep(0.1)
            yield prometheus
    finally:
        process.terminate()
        process.wait(_START_S)


@contextmanager
def served(page: str) -> Iterator[str]:
    """Address of a server that shows a page of metrics."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
