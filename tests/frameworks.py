"""LangChain and LlamaIndex, unmodified, each in an environment of its own: their pins would meet
the gateway's otherwise."""

import subprocess
import sys
import venv
from hashlib import blake2b
from pathlib import Path

from app.stack.files import locked

_LOCKS = Path(__file__).parent / "compat"


def framework_python(name: str, cache: Path) -> Path:
    """The interpreter that has what `NAME.lock` names; installed once for each lock file."""
    lock = _LOCKS / f"{name}.lock"
    digest = blake2b(lock.read_bytes() + sys.version.encode(), digest_size=8).hexdigest()
    folder = cache / "frameworks" / f"{name}-{digest}"
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not (folder / "complete").exists():
            venv.create(folder, with_pip=True, clear=True)
            command = ["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r"]
            subprocess.run([python, *command, lock], check=True, timeout=500)
            (folder / "complete").touch()
    return python
