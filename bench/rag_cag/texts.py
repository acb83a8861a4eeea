"""Collections of made-up documents, and questions that find passages of them. Pure."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from bench.micro.words import sentences

_ASKED_WORDS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Documents by file name, the same for the same seed."""

    seed: str
    documents: int
    characters: int

    def all(self) -> Mapping[str, str]:
        """Every document as it is at first."""
        return {f"{n:03}.txt": self.document(n) for n in range(self.documents)}

    def document(self, number: int, version: int = 0) -> str:
        """One document; another version is other text of the same length."""
        title = f"Document {number}, version {version}, of {self.seed}.\n\n"
        source = random.Random(f"{self.seed} {number} {version}")
        return title + sentences(source, self.characters - len(title))

    def question(self, number: int, about: int | None = None) -> str:
        """A question with words out of one place of one document, so that a search finds it."""
        source = random.Random(f"{self.seed} question {number}")
        document = source.randrange(self.documents) if about is None else about
        words = self.document(document).split()
        at = source.randrange(max(1, len(words) - _ASKED_WORDS))
        place = " ".join(words[at : at + _ASKED_WORDS])
        return f"({number}) What does document {document} say of this: {place}?"
