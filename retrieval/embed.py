"""Texts into vectors.

Two kinds: sentence-transformers (in this process here, in one of its own in
`retrieval.embed_process`), and a hashing embedder, which knows words but not meanings, needs no
model and starts at once: for tests and for machines without torch.
"""

import hashlib
import os
import re
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import tokenizers

from retrieval.embed_models import minilm_model, open_tokenizer, token_count
from retrieval.errors import EmbedderError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Vectors = npt.NDArray[np.float32]

_WORD = re.compile(r"\w+")
_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")


class Embedder(Protocol):
    """What an index needs of an embedding model.

    Attributes:
        id: names model and version; vectors of two ids are never compared.
        dimension: d.

    Both methods return (n, d) float32 with L2-normalised rows, may be called from several threads
    and raise `EmbedderError`.
    """

    @property
    def id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors: ...

    def embed_query(self, text: str) -> Vectors:
        """The query's vector as one row: (1, d)."""
        ...


class HashingEmbedder:
    """Words counted in hashed buckets: texts are near when they share words.

    A text without a word has no direction; its row is the first unit vector.
    """

    def __init__(self, dimension: int = 256) -> None:
        if dimension < 1:
            raise ValueError(f"dimension is {dimension}; it must be 1 or more")
        self.dimension = dimension
        self.id = f"hashing-words-{dimension}"

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word, count in Counter(_WORD.findall(text.lower())).items():
                bucket, sign = self._bucket(word)
                row[bucket] += sign * np.sqrt(count)
            if not row.any():
                row[0] = 1.0
        return normalised(vectors)

    def embed_query(self, text: str) -> Vectors:
        return self.embed_passages([text])

    def count_tokens(self, text: str) -> int:
        """Words and single signs; the hashing itself has no limit."""
        return len(_WORD_OR_SIGN.findall(text))

    def _bucket(self, word: str) -> tuple[int, float]:
        number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
        return (number >> 1) % self.dimension, 1.0 if number & 1 else -1.0


class SentenceTransformerEmbedder:
    """A sentence-transformers model in this process, on the CPU.

    torch and the model are loaded at first use (seconds), never at import. One call runs at a
    time: the tokenizer underneath can't be shared between threads. A server uses
    `ProcessEmbedder`, whose process this runs in.
    """

    def __init__(
        self, model_path: Path, *, id: str, dimension: int | None = None, threads: int = 1
    ) -> None:
        """Args:
        id: must change whenever the model's weights do.
        dimension: None to ask the model, which loads it.
        threads: torch's CPU threads, for the whole process.
        """
        self.id = id
        self._dimension = dimension
        self._model_path = model_path
        self._threads = threads
        self._lock = threading.Lock()
        self._model: SentenceTransformer | None = None
        self._counter: tokenizers.Tokenizer | None = None

    @property
    def dimension(self) -> int:
        """d. Raises EmbedderError: the model can't be loaded to be asked."""
        if self._dimension is None:
            with self._lock:
                told = self._loaded().get_embedding_dimension()
            if told is None:
                raise EmbedderError(self.id, "it doesn't tell how long its vectors are.")
            self._dimension = told
        return self._dimension

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        with self._lock:
            vectors = self._loaded().encode_document(
                list(texts), convert_to_numpy=True, show_progress_bar=False
            )
        return self._checked(vectors)

    def embed_query(self, text: str) -> Vectors:
        return self.embed_queries([text])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Several queries at once: (n, d); n at least 1."""
        with self._lock:
            vectors = self._loaded().encode_query(
                list(texts), convert_to_numpy=True, show_progress_bar=False
            )
        return self._checked(vectors)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text as the model reads it, its start and end marks left out.

        Needs neither torch nor the model's weights; threads may share it.
        """
        with self._lock:
            if self._counter is None:
                self._counter = open_tokenizer(self.id, self._model_path)
        return token_count(self._counter, text)

    def _loaded(self) -> "SentenceTransformer":
        if self._model is None:
            self._model = self._load()
        return self._model

    def _load(self) -> "SentenceTransformer":
        if not (self._model_path / "modules.json").is_file():
            raise EmbedderError(
                self.id, f"there is no sentence-transformers model in {str(self._model_path)!r}."
            )
        # Must be set before the hub client is imported; it would ask for metadata otherwise.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        try:
            import torch
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging

            logging.disable_progress_bar()  # type: ignore[no-untyped-call]
            torch.set_num_threads(self._threads)
            return SentenceTransformer(
                str(self._model_path), device="cpu", local_files_only=True, trust_remote_code=False
            )
        except ImportError as exc:
            raise EmbedderError(
                self.id, f"{exc.name} is not installed; install the extra 'retrieval'."
            ) from exc
        except (OSError, ValueError, KeyError) as exc:
            raise EmbedderError(
                self.id, f"its files can't be loaded ({exc}); install the model again."
            ) from exc

    def _checked(self, vectors: Vectors) -> Vectors:
        if vectors.ndim != 2 or self._dimension not in (None, vectors.shape[1]):
            raise EmbedderError(
                self.id, f"it gives vectors of shape {vectors.shape}, not (n, {self._dimension})."
            )
        if not np.isfinite(vectors).all():
            raise EmbedderError(self.id, "it gives vectors that are not finite.")
        return normalised(vectors.astype(np.float32, copy=False))


def minilm_embedder(*, threads: int = 1) -> SentenceTransformerEmbedder:
    """all-MiniLM-L6-v2 (384 dimensions, English, 256 tokens a text), from its Python package.

    Raises:
        EmbedderError: the package is not installed.
    """
    model = minilm_model()
    return SentenceTransformerEmbedder(
        model.folder, id=model.id, dimension=model.dimension, threads=threads
    )


def normalised(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1. (n, d) float32; rows of zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(lengths == 0.0, 1.0, lengths), dtype=np.float32)
