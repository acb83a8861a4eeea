"""Refuses a command line whose `--l2-adapter` would store KV in the clear. Pure."""

import json
from collections.abc import Iterator, Sequence
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
    for index, argument in enumerate(arguments):
        if argument.startswith(OPTION + "="):
            value = argument.removeprefix(OPTION + "=")
        elif argument == OPTION and index + 1 < len(arguments):
            value = arguments[index + 1]
        else:
            continue
        try:
            adapter = json.loads(value)
        except ValueError:
            continue
        if isinstance(adapter, dict):
            yield adapter


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
