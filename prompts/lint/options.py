"""What a lint run is told: which rules, page and chunk size, and whose tokens to count."""

from dataclasses import dataclass
from typing import Protocol

from prompts.segments import Prompt, TokenizedPrompt

# LMCache 0.5.6's default chunk; SGLang's page size of Foreword's own stack.
PAGE_SIZE = 64
CHUNK_SIZE = 256


class TokenCounter(Protocol):
    """What rules ask of a tokenizer; `PromptTokenizer` is one."""

    def count(self, text: str) -> int:
        """Tokens of a text by itself."""

    def tokenize(self, prompt: Prompt) -> TokenizedPrompt:
        """The prompt's ids, the chat template's own words included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOptions:
    """Without a tokenizer, costs are unknown and rules that need one are skipped.

    `select` and `ignore` hold codes (`FW101`), prefixes of codes (`FW1`) or names; an empty
    `select` means all. The longer match wins, and `ignore` wins over an equal `select`.
    """

    page_size: int = PAGE_SIZE
    chunk_size: int = CHUNK_SIZE
    tokenizer: TokenCounter | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def wants(self, code: str, name: str) -> bool:
        """Whether a rule is to be run."""
        chosen = _longest(self.select, code, name) if self.select else 0
        return chosen > _longest(self.ignore, code, name)


def _longest(words: tuple[str, ...], code: str, name: str) -> int:
    """Length of the longest word that names the rule, -1 for none; a name counts as a code."""
    lengths = [len(code) if word == name else len(word) for word in words if word == name]
    lengths += [len(word) for word in words if code.startswith(word)]
    return max(lengths, default=-1)
