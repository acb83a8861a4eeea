"""A tokenizer that is loaded when a finding first asks for a count."""

from collections.abc import Callable
from functools import cached_property

from prompts.lint.options import TokenCounter
from prompts.segments import Prompt, TokenizedPrompt


class LazyTokenizer:
    """Counts with the tokenizer that `load` gives, once it is asked to."""

    def __init__(self, load: Callable[[], TokenCounter]) -> None:
        self._load = load

    @cached_property
    def _tokenizer(self) -> TokenCounter:
        return self._load()

    def count(self, text: str) -> int:
        return self._tokenizer.count(text)

    def tokenize(self, prompt: Prompt) -> TokenizedPrompt:
        return self._tokenizer.tokenize(prompt)
