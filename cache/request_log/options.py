"""What a diagnosis of a request log is told."""

from dataclasses import dataclass
from pathlib import Path

from prompts import PromptTokenizer
from prompts.lint.options import CHUNK_SIZE, PAGE_SIZE

STANDARD_INPUT = Path("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Without a tokenizer, tokens are estimated from bytes, and the output says so.

    `capacity_tokens` is the size of the engine's KV pool (`max_total_num_tokens`); without it,
    losses to eviction are looked for only where the log holds the engine's own cached tokens.
    """

    path: Path = STANDARD_INPUT
    page_size: int = PAGE_SIZE
    chunk_size: int = CHUNK_SIZE
    tokenizer: PromptTokenizer | None = None
    capacity_tokens: int | None = None
