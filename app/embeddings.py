"""The deployment's own embedding model for clients: `/v1/embeddings`.

It is the one that documents and questions are embedded with, in the same process, so that a
client's vectors lie in the same space. Passages wait while there are too many; questions to the
gateway's own collections go before them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from app.collections import OpenedEmbedder
from app.errors import InvalidRequestError
from app.settings import RetrievalSettings
from retrieval import EmbedderBusyError
from retrieval.embed import Vectors

# Worker threads that embeddings may hold, and requests that may wait for one.
_AT_ONCE = 4
_MOST_WAITING = 64
# No model's tokens are as long on average; counting a text costs more than refusing it.
_CHARACTERS_A_TOKEN = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """Vectors (n, d) float32, rows L2-normalised, and the tokens of all texts together."""

    vectors: Vectors
    tokens: int


class Embeddings:
    """Embeds clients' texts, a few requests at a time."""

    def __init__(self, opened: OpenedEmbedder, settings: RetrievalSettings) -> None:
        self.name = Path(settings.embedder).name
        self._embedder = opened.embedder
        self._model = opened.model
        self._room = anyio.CapacityLimiter(_AT_ONCE)

    @property
    def max_tokens(self) -> int | None:
        """What the model reads of a text; None where nothing bounds it."""
        return self._model.max_tokens if self._model else None

    async def embed(self, texts: Sequence[str], *, dimensions: int | None = None) -> Embedded:
        """One vector for each text, as for a passage of a document.

        Args:
            dimensions: what the client wants them to have; only what the model gives is served.

        Raises:
            InvalidRequestError: a text is longer than the model reads, or other dimensions are
                wanted.
            EmbedderBusyError: too many requests wait already.
            EmbedderError: the model can't be used.
        """
        if self._room.statistics().tasks_waiting >= _MOST_WAITING:
            problem = f"{_MOST_WAITING} requests wait for it; ask again later."
            raise EmbedderBusyError(self._embedder.id, problem)
        return await anyio.to_thread.run_sync(self._embed, texts, dimensions, limiter=self._room)

    def _embed(self, texts: Sequence[str], dimensions: int | None) -> Embedded:
        self._check_characters(texts)
        tokens = [self._embedder.count_tokens(text) for text in texts]
        self._check_lengths(tokens)
        given = self._embedder.dimension
        if dimensions not in (None, given):
            problem = f"this model's vectors have {given} dimensions; leave dimensions out"
            raise InvalidRequestError(problem, param="dimensions")
        vectors = self._embedder.embed_passages(texts)
        return Embedded(vectors=vectors, tokens=sum(tokens))

    def _check_characters(self, texts: Sequence[str]) -> None:
        """What is too long by far isn't even counted."""
        most = self.max_tokens
        for place, text in enumerate(texts):
            if most is not None and len(text) > _CHARACTERS_A_TOKEN * most:
                problem = (
                    f"input {place} has {len(text):,} characters, and the model reads {most} "
                    "tokens; cut it"
                )
                raise InvalidRequestError(problem, param="input")

    def _check_lengths(self, tokens: Sequence[int]) -> None:
        """What the model would cut off is refused: the vector would be of another text."""
        most = self.max_tokens
        for place, count in enumerate(tokens):
            if most is not None and count > most:
                problem = f"input {place} has {count} tokens, and the model reads {most}; cut it"
                raise InvalidRequestError(problem, param="input")
