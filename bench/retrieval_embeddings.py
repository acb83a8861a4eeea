"""Embeddings that were computed once, found by the content of what was embedded.

A real model embeds some tens of passages a second, so the vectors of a known corpus are kept: each
component in 8 bits with a scale for each vector, which changes a cosine by less than 0.003. What
isn't kept is embedded by the real model, and the vector stays in a cache.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from retrieval import Embedder, minilm_embedder
from retrieval.embed import Vectors, normalised

_KEY_BYTES = 8
_LARGEST = 127
_TOGETHER = 128


def content_key(embedder_id: str, kind: str, text: str) -> int:
    """What a text's vector is kept under; equal texts of one model and kind have one key."""
    told = "\0".join((embedder_id, kind, text)).encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=_KEY_BYTES).digest(), "big")


def save_vectors(path: Path, vectors: dict[int, Vectors]) -> None:
    """Keeps vectors (d,) by their keys; equal vectors give equal bytes."""
    keys = sorted(vectors)
    rows = np.stack([vectors[key] for key in keys])
    scales = np.abs(rows).max(axis=1, keepdims=True)
    np.savez_compressed(
        path,
        keys=np.array(keys, np.uint64),
        scales=scales.astype(np.float32),
        components=np.rint(rows / scales * _LARGEST).astype(np.int8),
    )


def load_vectors(path: Path) -> dict[int, Vectors]:
    """Kept vectors (d,) float32, L2-normalised, by their keys; none where there is no file."""
    if not path.is_file():
        return {}
    with np.load(path) as kept:
        rows = normalised(kept["components"].astype(np.float32) * kept["scales"])
        return dict(zip(kept["keys"].tolist(), rows, strict=True))


class KeptEmbedder:
    """MiniLM, as far as its vectors are kept; the model is loaded only for what isn't.

    Args:
        cache: what is embedded here is kept in it, in full precision.

    Attributes:
        missed: texts whose vectors were neither kept nor cached.
    """

    def __init__(self, kept: Path, cache: Path, *, model: Embedder | None = None) -> None:
        self._model = model or minilm_embedder(threads=2)
        self.id = self._model.id
        self.dimension = self._model.dimension
        self.missed: list[str] = []
        self._cache = cache
        self._known = load_vectors(kept)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._embedded("passage", texts)

    def embed_query(self, text: str) -> Vectors:
        return self._embedded("query", [text])

    def vectors_of(self, passages: Iterable[str], queries: Iterable[str]) -> dict[int, Vectors]:
        """The vectors (d,) of these texts by their keys: what `save_vectors` keeps."""
        found: dict[int, Vectors] = {}
        for kind, texts in (("passage", list(passages)), ("query", list(queries))):
            keys = [content_key(self.id, kind, text) for text in texts]
            found |= dict(zip(keys, self._embedded(kind, texts), strict=True))
        return found

    def _embedded(self, kind: str, texts: Sequence[str]) -> Vectors:
        by_key = {content_key(self.id, kind, text): text for text in texts}
        self._recall(by_key)
        # Texts of like length together: a batch costs as much as its longest.
        missing = sorted(by_key.keys() - self._known.keys(), key=lambda key: len(by_key[key]))
        for start in range(0, len(missing), _TOGETHER):
            self._compute(kind, {key: by_key[key] for key in missing[start : start + _TOGETHER]})
        rows = [self._known[content_key(self.id, kind, text)] for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.dimension), np.float32)

    def _recall(self, keys: Iterable[int]) -> None:
        for key in set(keys) - self._known.keys():
            if self._path(key).is_file():
                self._known[key] = np.load(self._path(key))

    def _compute(self, kind: str, texts: dict[int, str]) -> None:
        self.missed += texts.values()
        vectors = (
            self._model.embed_passages(list(texts.values()))
            if kind == "passage"
            else np.concatenate([self._model.embed_query(text) for text in texts.values()])
        )
        self._cache.mkdir(parents=True, exist_ok=True)
        for key, vector in zip(texts, vectors, strict=True):
            self._known[key] = vector
            part = self._path(key).with_suffix(".part.npy")
            np.save(part, vector)
            part.replace(self._path(key))

    def _path(self, key: int) -> Path:
        return self._cache / f"{key:016x}.npy"
