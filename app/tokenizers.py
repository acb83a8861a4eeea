"""Tokenizers that several replicas share: a large one takes tens of megabytes."""

from pathlib import Path

import anyio

from prompts import PromptTokenizer, load_tokenizer

_MOST = 4


class Tokenizers:
    """Loads each folder once, and again when its files changed. One event loop owns it."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[Path, int], PromptTokenizer] = {}
        self._lock = anyio.Lock()

    async def load(self, folder: Path) -> PromptTokenizer:
        """The tokenizer of a model's folder.

        Raises:
            TokenizerNotFoundError, ChatTemplateError, OSError, ValueError: it can't be read.
        """
        async with self._lock:
            key = (folder, _changed_at(folder))
            if key not in self._loaded:
                if len(self._loaded) >= _MOST:
                    del self._loaded[next(iter(self._loaded))]
                self._loaded[key] = await anyio.to_thread.run_sync(load_tokenizer, folder)
            return self._loaded[key]


def _changed_at(folder: Path) -> int:
    """When the newest of its files was written, in nanoseconds; 0 where there is none."""
    try:
        return max((path.stat().st_mtime_ns for path in folder.iterdir()), default=0)
    except OSError:
        return 0
