"""The `--l2-adapter`s of a command line: what would store KV in the clear is refused, and a disk
that isn't there is left out, since it would keep LMCache from starting.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from foreword_guard.errors import UnsealedAdapterError

OPTION = "--l2-adapter"
SERDE_TYPE = "foreword_aead"
# Adapters that keep nothing outside the memory of a running server.
_IN_MEMORY = frozenset({"mock", "p2p"})


def l2_adapters(arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The adapters named by a command line of `lmcache server`, as parsed JSON objects.

    What isn't a JSON object is left for LMCache to complain about.
    """
    for option, value in _options(arguments):
        adapter = _parsed(value) if option == OPTION and value is not None else None
        if adapter is not None:
            yield adapter


def without_missing_folders(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command line without adapters whose folder can't be used, and why by adapter type."""
    kept: list[str] = []
    missing: dict[str, str] = {}
    for option, value in _options(arguments):
        adapter = _parsed(value) if option == OPTION and value is not None else None
        problem = None if adapter is None else _folder_problem(adapter)
        if adapter is None or problem is None:
            kept += [option] if value is None else [option, value]
        else:
            missing[str(adapter.get("type"))] = problem
    return kept, missing


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Each `--l2-adapter` with its value; everything else one by one, as it is."""
    rest = iter(arguments)
    for argument in rest:
        if argument == OPTION:
            yield OPTION, next(rest, None)
        elif argument.startswith(OPTION + "="):
            yield OPTION, argument.removeprefix(OPTION + "=")
        else:
            yield argument, None


def _parsed(value: str) -> dict[str, Any] | None:
    try:
        adapter = json.loads(value)
    except ValueError:
        return None
    return adapter if isinstance(adapter, dict) else None


def _folder_problem(adapter: dict[str, Any]) -> str | None:
    base_path = adapter.get("base_path")
    if not isinstance(base_path, str):
        return None
    try:
        Path(base_path).mkdir(parents=True, exist_ok=True)
        next(Path(base_path).iterdir(), None)
    except OSError as exc:
        return f"{base_path} can't be used ({exc.strerror}); restart the tier server when it can"
    return None


def is_sealed(adapter: dict[str, Any]) -> bool:
    """Whether the adapter carries our serde."""
    serde = adapter.get("serde")
    return isinstance(serde, dict) and serde.get("type") == SERDE_TYPE


def require_sealed(arguments: Sequence[str]) -> bool:
    """True when at least one adapter is sealed.

    Raises:
        UnsealedAdapterError: an adapter would store KV outside memory without our serde.
    """
    adapters = list(l2_adapters(arguments))
    for adapter in adapters:
        kind = str(adapter.get("type"))
        if kind not in _IN_MEMORY and not is_sealed(adapter):
            raise UnsealedAdapterError(kind)
    return any(is_sealed(adapter) for adapter in adapters)
