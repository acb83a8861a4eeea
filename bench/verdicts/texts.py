"""Random text of about so many tokens, and the exact token ids of what a question becomes."""

import random
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from bench.verdicts.cases import JSONObject, Question
from prompts import (
    Message,
    PromptDocument,
    PromptTokenizer,
    TemplateLibrary,
    TokenizedPrompt,
    load_templates,
    load_tokenizer,
    render,
)

TEMPLATES = Path(__file__).parent / "templates"
_VOCABULARY = (
    "the ferry leaves at nine and comes back by noon while a lighthouse keeper counts old boats "
    "prices adults children dogs travel free call for groups open from ten to five every day "
    "question answer document harbour island storm winter ticket office museum garden bridge "
    "class value method object module string number returns defined name list argument exception "
    "statement function attribute operator sequence mapping iteration context manager import"
)
_WORDS = _VOCABULARY.split(" ")


class Texts:
    """Everything random comes from here: one seed, one traffic."""

    def __init__(self, seed: int, model: Path, *, page_tokens: int, chunk_tokens: int) -> None:
        self.random = random.Random(seed)
        self.page = page_tokens
        self.chunk = chunk_tokens
        self._tokenizer: PromptTokenizer = load_tokenizer(model)
        self._templates: TemplateLibrary = load_templates(TEMPLATES)
        self._tokens_a_word = self._tokenizer.count(" ".join(_WORDS)) / len(_WORDS)
        # Their names part at once: what follows a prompt's passages is never the same in two.
        self.collections = {f"{place}{self.name()}": self.words(12) for place in "ab"}

    def words(self, tokens: int) -> str:
        """About so many tokens of text."""
        count = max(1, round(tokens / self._tokens_a_word))
        return " ".join(self.random.choice(_WORDS) for _ in range(count))

    def name(self) -> str:
        """A name that nobody else has."""
        return f"{self.random.getrandbits(32):08x}"

    def unique(self, tokens: int) -> str:
        """Text that differs from all other within its first few tokens."""
        return f"{self.name()} {self.words(max(1, tokens - 8))}."

    def note(self, tokens: int) -> JSONObject:
        """A passage with a name and a text of its own."""
        return {"name": f"n{self.name()}", "text": self.words(tokens)}

    def ids(self, question: Question) -> tuple[int, ...]:
        """The prompt's token ids, as the gateway makes them; tools aren't rendered."""
        return self.tokenized(question).token_ids

    def tokenized(self, question: Question) -> TokenizedPrompt:
        """The prompt, as the gateway makes it; tools aren't rendered."""
        template = self._templates.find(question.template)
        values = dict(question.variables)
        if "passages" in values:
            values["passages"] = _documents(values["passages"])
            values["documents"] = _documents(self._held(question.collection))
            values["question"] = question.messages[-1]["content"]
        else:
            values["conversation"] = [Message(**message) for message in question.messages]
        return self._tokenizer.tokenize(render(template, values))

    def limit(self, ids: Sequence[int]) -> int:
        """The most that is ever re-used."""
        return self._floor(len(ids) - 1)

    def left(self, ids: Sequence[int], *earlier: Sequence[int]) -> int:
        """Whole pages that one of the earlier prompts begins with too."""
        shared = max((_shared(ids, other) for other in earlier), default=0)
        return min(self._floor(shared), self.limit(ids))

    def chunked(self, tokens: int) -> int:
        """Whole chunks of so many tokens."""
        return tokens // self.chunk * self.chunk

    def _held(self, collection: str | None) -> Sequence[JSONObject]:
        if collection is None:
            return ()
        return [{"name": f"{collection}.txt", "text": self.collections[collection]}]

    def _floor(self, tokens: int) -> int:
        return max(0, tokens) // self.page * self.page


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _documents(values: Sequence[JSONObject]) -> list[PromptDocument]:
    return [PromptDocument(name=value["name"], text=value["text"]) for value in values]
