"""A program that a benchmark starts and ends."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_STOP_S = 60.0


@contextmanager
def running_child(
    command: list[str], folder: Path, name: str, environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[str]"]:
    """A program that ends with us; it runs in a folder of ours, where no `foreword.toml` is.

    Its errors are in `NAME.log` there, what it prints is to be read from `stdout`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.log").open("a") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # An interrupt from the keyboard ends us in order; it mustn't reach them first.
            process_group=0,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
