"""Which reader a file wants: told by its first bytes, or named. Only that one is imported."""

from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import orjson

from bench.errors import TraceError
from bench.traces.request import Trace
from bench.traces.rows import opened

# By format: the module, and the reader in it.
_READERS = MappingProxyType(
    {
        "azure": ("bench.traces.azure", "azure_requests"),
        "bailian": ("bench.traces.bailian", "bailian_requests"),
        "ledger": ("bench.traces.ledger", "ledger_requests"),
        "mooncake": ("bench.traces.mooncake", "mooncake_requests"),
        "requests": ("bench.traces.request_log", "log_requests"),
    }
)
FORMATS = tuple(_READERS)


def open_trace(path: Path, *, form: str | None = None, block_tokens: int | None = None) -> Trace:
    """A trace file; nothing but its first line is read yet.

    Args:
        form: one of `FORMATS`; None: told by the first line.
        block_tokens: of a block, where the file's are not as long as its format's usually are.

    Raises:
        TraceError: the file can't be read, or is of no known format.
    """
    name, reader = _READERS[form or _form_of(path)]
    module = import_module(name)
    usual: int | None = module.BLOCK_TOKENS
    return Trace(
        name=path.name.removesuffix(".gz").rsplit(".", 1)[0],
        block_tokens=usual and (block_tokens or usual),
        read=partial(getattr(module, reader), path),
        piece_tokens=getattr(module, "PIECE_TOKENS", None),
    )


def _form_of(path: Path) -> str:
    with opened(path) as lines:
        first = lines.readline()
    if first.startswith(b"SQLite format 3"):
        return "ledger"
    if first.removeprefix(b"\xef\xbb\xbf").startswith(b"TIMESTAMP"):
        return "azure"
    try:
        row = orjson.loads(first)
    except orjson.JSONDecodeError:
        row = None
    if isinstance(row, dict):
        if "hash_ids" in row:
            return "bailian" if "chat_id" in row else "mooncake"
        return "requests"
    raise TraceError(path, 1, f"is of no known format; name it: {', '.join(FORMATS)}")
