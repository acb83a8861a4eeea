"""The fresh process: takes a callable on stdin, leaves the prompt that it makes in a file."""

import importlib
import importlib.util
import io
import json
import locale
import os
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from foreword_pytest.clock import start_clock
from foreword_pytest.prompt import FlatPrompt, Part, flatten


def main() -> None:
    """Called by `foreword_pytest.runs`: a line of JSON, then the pickled callable."""
    order = json.loads(sys.stdin.buffer.readline())
    pickled = sys.stdin.buffer.read()
    _set_locale(order["locales"])
    if order["reverse_listings"]:
        _reverse_listings()
    if order["instant_s"] is not None:
        start_clock(order["instant_s"])
    render = _Unpickler(io.BytesIO(pickled), order["files"]).load()
    prompt = flatten(render())
    Path(order["out"]).write_text(json.dumps(to_plain(prompt)), "ascii")


def to_plain(prompt: FlatPrompt) -> dict[str, Any]:
    """A flat prompt as JSON values."""
    parts = [[part.where, part.text, part.role, part.message] for part in prompt.parts]
    return {"unit": prompt.unit, "parts": parts}


def from_plain(plain: dict[str, Any]) -> FlatPrompt:
    """The flat prompt again."""
    parts = tuple(
        Part(where=where, text=text, role=role, message=message)
        for where, text, role, message in plain["parts"]
    )
    return FlatPrompt(parts=parts, unit=plain["unit"])


class _Unpickler(pickle.Unpickler):
    """Finds test modules too, which can often not be imported by their names."""

    def __init__(self, file: io.BytesIO, files: dict[str, str]) -> None:
        super().__init__(file)
        self._files = files

    def find_class(self, module_name: str, global_name: str) -> Any:
        found: Any = self._module(module_name)
        for name in global_name.split("."):
            found = getattr(found, name)
        return found

    def _module(self, name: str) -> ModuleType:
        if name in sys.modules or name not in self._files:
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(name, self._files[name])
        if spec is None or spec.loader is None:
            return importlib.import_module(name)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module


def _set_locale(names: list[str]) -> None:
    """The environment's locale, the first that is installed.

    As at any start of Python, a program is in it only after `setlocale(LC_ALL, "")`.
    """
    for name in names:
        try:
            locale.setlocale(locale.LC_ALL, name)
        except locale.Error:
            continue
        os.environ["LC_ALL"] = os.environ["LANG"] = name
        break
    locale.setlocale(locale.LC_ALL, "C")
    locale.setlocale(locale.LC_CTYPE, "")


def _reverse_listings() -> None:
    listdir, scandir = os.listdir, os.scandir

    class Reversed:
        """What `os.scandir` gives, the other way round."""

        def __init__(self, path: Any) -> None:
            with scandir(path) as entries:
                self._entries = iter(sorted(entries, key=lambda e: e.name, reverse=True))

        def __iter__(self) -> "Reversed":
            return self

        def __next__(self) -> Any:
            return next(self._entries)

        def __enter__(self) -> "Reversed":
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def close(self) -> None:
            self._entries = iter(())

    vars(os)["listdir"] = lambda path=".": sorted(listdir(path), reverse=True)
    vars(os)["scandir"] = lambda path=".": Reversed(path)
