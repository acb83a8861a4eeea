"""Schemathesis sends what the OpenAPI document allows, and what it doesn't, to a real gateway.

There is no 5xx, no answer but those that the document has, and nothing is taken that it forbids.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "negative_data_rejection",
)


@pytest.fixture(scope="module")
def gateway(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Behind it, a model that is brief and takes no time."""
    config = SimulatorConfig(
        model_path=tokenizer_folder, eos_every_tokens=8, clock=ClockConfig(speedup=1000)
    )
    home = tmp_path_factory.mktemp("home")
    with (
        SimulatorThread(config) as simulator,
        running_gateway(gateway_settings(home, simulator.url)) as url,
    ):
        wait_until_ready(url)
        yield url


def test_all_operations_keep_to_the_document(gateway: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{gateway}/openapi.json"),
            *("--checks", ",".join(CHECKS)),
            *("--phases", "coverage,fuzzing"),
            *("--max-examples", "5", "--seed", "1", "--request-timeout", "20"),
            *("--generation-database", "none", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
