"""A Triton that imports and does nothing, where the real one (a gigabyte) is not installed.

SGLang imports Triton unconditionally and declares some sixty kernels with it; on a CPU none is
called. It carries a stub itself, for Apple machines; this runs that stub's block on Linux.

Source: sglang/srt/utils/common.py:91 (the import), sglang/_platform_stubs.py:410-533 (the stub,
behind a test for macOS and MPS at 398-408), sglang 0.5.23.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


class TritonStubFinder:
    """A meta path finder for `triton`; belongs at the end of `sys.meta_path`."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The stub's spec; None for other modules, or without SGLang."""
        if name != "triton":
            return None
        source = _stub_source()
        if source is None:
            return None
        # The block asks whether Triton can be found, so it must not find us.
        sys.meta_path.remove(self)
        return importlib.machinery.ModuleSpec("triton", _StubLoader(source), is_package=True)


class _StubLoader(importlib.abc.Loader):
    """Loads `triton` by running SGLang's block, which puts it into `sys.modules` itself."""

    def __init__(self, source: Path) -> None:
        self._source = source

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        _run_stub_block(self._source)
        # The import system inserts it again, under its own spec.
        return sys.modules.pop("triton")

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to run."""


def _stub_source() -> Path | None:
    spec = importlib.machinery.PathFinder.find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "_platform_stubs.py"


def _run_stub_block(source: Path) -> None:
    """Execute the `if "triton" not in sys.modules …` block of `install_platform_stubs`."""
    spec = importlib.util.spec_from_file_location("_sglang_platform_stubs", source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} cannot be loaded", name="triton")
    stubs = importlib.util.module_from_spec(spec)
    # dataclasses looks its module up while the file runs.
    sys.modules[spec.name] = stubs
    spec.loader.exec_module(stubs)
    block = _triton_block(source.read_text(encoding="utf-8"))
    exec(compile(ast.Module([block], []), str(source), "exec"), stubs.__dict__)


def _triton_block(code: str) -> ast.If:
    """The statement of `install_platform_stubs` that stubs Triton.

    Raises:
        ImportError: this file is not the one the shim was made for.
    """
    for function in ast.parse(code).body:
        if isinstance(function, ast.FunctionDef) and function.name == "install_platform_stubs":
            for statement in function.body:
                if isinstance(statement, ast.If) and "triton" in ast.unparse(statement.test):
                    return statement
    raise ImportError("sglang/_platform_stubs.py has no Triton stub any more", name="triton")
