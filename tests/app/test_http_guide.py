"""The examples of docs/http.md run as they stand."""

import contextlib
import io
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
GUIDE = (ROOT / "docs" / "http.md").read_text()
ADDRESS = "http://127.0.0.1:8400"


def examples(language: str, gateway: str) -> str:
    """All examples in a language, one after the other, at a gateway's address."""
    found = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    assert found
    return "\n".join(found).replace(ADDRESS, gateway)


def test_the_python_examples_run(gateway: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    source = examples("python", gateway)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "docs/http.md", "exec"), {})
    assert "tokens re-used" in printed.getvalue()
    assert "Pier 3 is closed in winter." in printed.getvalue()


def test_the_shell_examples_run(gateway: str, tmp_path: Path) -> None:
    (tmp_path / ".curlrc").write_text('silent\nshow-error\nfail-with-body\nnoproxy = "*"\n')
    script = "set -euo pipefail\n" + examples("bash", gateway)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "CURL_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert '"object":"response"' in done.stdout
    assert '"object":"foreword.sync"' in done.stdout
