"""One bash that runs scripts one after the other and keeps its variables between them."""

import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# A command that hangs must not hang the test run; none takes a hundredth of it.
_LONGEST_S = 300
# Fails at the first command that fails, as somebody would stop there who types them one by one.
_STRICT = "set -euo pipefail\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What became of a script: the status of the first command that failed, or 0."""

    status: int
    output: str
    errors: str


class Shell:
    """A shell that is started when it is first needed, and anew when a script has ended it.

    Args:
        scratch: a folder for scripts and outputs.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._process: subprocess.Popen[str] | None = None
        self._number = 0

    def run(self, script: str, *, folder: Path, environment: Mapping[str, str]) -> Printed:
        """Run a script in a folder, behind those before."""
        process = self._process or self._start(environment)
        assert process.stdin is not None
        assert process.stdout is not None
        self._number += 1
        file, output, errors = (
            self._scratch / f"{self._number}.{end}" for end in ("sh", "out", "err")
        )
        file.write_text(f"cd {folder}\n{script}\n")
        process.stdin.write(f"source {file} >{output} 2>{errors} </dev/null\necho done\n")
        process.stdin.flush()
        watch = threading.Timer(_LONGEST_S, process.kill)
        watch.start()
        ended_well = process.stdout.readline() == "done\n"
        watch.cancel()
        status = 0 if ended_well else process.wait()
        if not ended_well:
            self.close()
        out, err = (path.read_text("utf-8", "replace") for path in (output, errors))
        return Printed(status=status, output=out, errors=err)

    def close(self) -> None:
        """End it; the next script begins without variables."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait()
            process.stdout.close()

    def _start(self, environment: Mapping[str, str]) -> "subprocess.Popen[str]":
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(_STRICT)
        return self._process
