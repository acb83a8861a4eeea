"""The prompts of a callable: called again in this process, and in fresh ones."""

import inspect
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from foreword_pytest.child import from_plain
from foreword_pytest.errors import RenderError
from foreword_pytest.prompt import FlatPrompt, flatten
from foreword_pytest.surroundings import Surroundings

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from foreword_pytest.child import main; main()"
)
_TAIL_LINES = 12

Render = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A prompt, and what made it; `details` say how that process was unlike others."""

    name: str
    prompt: FlatPrompt
    details: str = ""

    @property
    def label(self) -> str:
        """Name and details."""
        return f"{self.name} ({self.details})" if self.details else self.name


def calls(render: Render, count: int) -> list[Run]:
    """The prompts of `count` calls in this process."""
    return [Run(name=f"call {n}", prompt=flatten(render())) for n in range(1, count + 1)]


def fresh_runs(
    render: Render, each: tuple[Surroundings, ...], *, timeout_s: float
) -> list[Run] | None:
    """The prompts that fresh processes make, all started at once.

    Returns:
        None where the callable can't travel: a lambda, a closure, a value that can't be pickled.

    Raises:
        RenderError: the callable failed in one.
    """
    pickled = _pickled(render)
    if pickled is None:
        return None
    with tempfile.TemporaryDirectory(prefix="foreword-pytest-") as folder, _ended() as started:
        for number, around in enumerate(each):
            started.append(_Child.start(render, around, Path(folder) / str(number), pickled))
        return [child.run(timeout_s) for child in started]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    render: Render
    around: Surroundings
    out: Path
    pickled: bytes
    process: subprocess.Popen[bytes]

    @property
    def name(self) -> str:
        """Which of the processes it is."""
        return f"fresh process {self.around.hash_seed + 1}"

    @classmethod
    def start(cls, render: Render, around: Surroundings, out: Path, pickled: bytes) -> "_Child":
        env = dict(os.environ)
        env |= {"PYTHONHASHSEED": str(around.hash_seed), "TZ": around.timezone}
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, json.dumps(sys.path)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return cls(render=render, around=around, out=out, pickled=pickled, process=process)

    def run(self, timeout_s: float) -> Run:
        order = self.around.as_json() | {"out": str(self.out), "files": _files(self.render)}
        given = json.dumps(order).encode() + b"\n" + self.pickled
        try:
            output, _ = self.process.communicate(given, timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            problem = f"it took longer than {timeout_s:g} s"
            raise RenderError(f"{self.name} ({self.around.label})", problem) from error
        if self.process.returncode == 0:
            prompt = from_plain(json.loads(self.out.read_text("ascii")))
            return Run(name=self.name, prompt=prompt, details=self.around.label)
        if self.around.instant_s is not None:
            # Some libraries know only the real datetime class: then its clock stays as it is.
            real = replace(self.around, instant_s=None)
            with _ended() as started:
                started.append(_Child.start(self.render, real, self.out, self.pickled))
                return started[0].run(timeout_s)
        lines = output.decode(errors="replace").splitlines()[-_TAIL_LINES:]
        raise RenderError(f"{self.name} ({self.around.label})", "\n".join(lines))


@contextmanager
def _ended() -> Iterator[list[_Child]]:
    """Processes that are all over at the end, whatever happens."""
    started: list[_Child] = []
    try:
        yield started
    finally:
        for child in started:
            child.process.kill()
            child.process.communicate()


def _pickled(render: Render) -> bytes | None:
    if _module(render) == "__main__":
        return None
    try:
        return pickle.dumps(render)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _module(render: Render) -> str:
    inner: object = render
    while isinstance(inner, partial):
        inner = inner.func
    return str(getattr(inner, "__module__", None) or type(inner).__module__)


def _files(render: Render) -> dict[str, str]:
    """The file of the callable's module, for one that can't be found by its name."""
    name = _module(render)
    module = sys.modules.get(name)
    file = inspect.getsourcefile(module) if module is not None and _has_file(module) else None
    return {} if file is None else {name: file}


def _has_file(module: object) -> bool:
    return getattr(module, "__file__", None) is not None
