"""What users of LangChain and LlamaIndex do, each in its own environment."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.frameworks import framework_python

HERE = Path(__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", ["langchain", "llamaindex"])
def test_a_frameworks_own_client_works_unmodified(
    name: str, gateway: str, engine_cache: Path
) -> None:
    python = framework_python(name, engine_cache)
    environment = {"PATH": os.environ["PATH"], "HOME": str(engine_cache), "NO_PROXY": "*"}
    done = subprocess.run(
        [python, "-W", "ignore", HERE / f"{name}_client.py", f"{gateway}/v1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
