"""The two names of IPython that SGLang imports for notebooks, where IPython is not installed.

Leaving IPython and what it needs out of the engine environment saves 60 MB and, in each of the
engine's processes, 0.1 s of imports.

Source: sglang/utils.py:25, `from IPython.display import HTML, display` (sglang 0.5.23); used by
`print_highlight` and the video helpers of notebooks, never by a server.
"""

import importlib.abc
import importlib.machinery
from collections.abc import Sequence
from types import ModuleType


class NotebookFinder:
    """A meta path finder for `IPython` and `IPython.display`; belongs at the end."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The stand-in's spec, or None for any other module."""
        if name not in ("IPython", "IPython.display"):
            return None
        return importlib.machinery.ModuleSpec(name, _NotebookLoader(), is_package=name == "IPython")


class _NotebookLoader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """None asks for an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "IPython.display":
            for name in ("HTML", "display"):
                setattr(module, name, _unavailable(name))


def _unavailable(name: str) -> object:
    def raise_missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError(
            f"IPython.display.{name} needs IPython, which the engine environment leaves out",
            name="IPython",
        )

    return raise_missing
