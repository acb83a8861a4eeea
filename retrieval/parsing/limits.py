"""What reading one file may cost."""

from dataclasses import dataclass

from retrieval.errors import ParsingLimitError

# OpenAI takes files of up to 5,000,000 tokens into a vector store; that is about as many characters
# as this. Source: https://platform.openai.com/docs/assistants/tools/file-search ("Limits").
MAX_TEXT_CHARS = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsingLimits:
    """Bounds on the process that reads files.

    Attributes:
        max_seconds: for one file, from handing it over to having its text.
        max_memory_bytes: what the process may take beyond what it has when it starts.

    Raises:
        ValueError: a bound that lets nothing through.
    """

    max_seconds: float = 120.0
    max_memory_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        if self.max_seconds <= 0:
            raise ValueError(f"max_seconds is {self.max_seconds}; it must be more than 0")
        if self.max_memory_bytes < 1 << 26:
            raise ValueError(
                f"max_memory_bytes is {self.max_memory_bytes:,}; it must be 67,108,864 or more"
            )


def check_length(name: str, text_chars: int) -> None:
    """Refuses a document with more text than it may have.

    Raises:
        ParsingLimitError: more than `MAX_TEXT_CHARS`.
    """
    if text_chars > MAX_TEXT_CHARS:
        raise ParsingLimitError(name, "text", MAX_TEXT_CHARS, "characters")
