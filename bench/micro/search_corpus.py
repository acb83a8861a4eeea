"""Real passages, their real embeddings, and as many vectors as a benchmark needs.

The passages are Python's own manual (`pydoc_data.topics`) and the docstrings of its standard
library: some 3,000 on any machine. MiniLM embeds some tens of them a second, so what it gave is
kept by the digest of model and texts. More vectors than passages are made from these by small
perturbations: they have real neighbourhoods, but repeat each passage many times.
"""

import ast
import hashlib
import pydoc_data.topics
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from retrieval import Embedder, minilm_embedder
from retrieval.embed import Vectors, normalised

# Noise as long as half of the vector: the cosine to the passage is 0.89 on average.
NOISE = 0.5
_PER_FILE = 64
_MOST_CHARACTERS = 500
_LEAST_CHARACTERS = 80
_FOLDERS = (".", "asyncio", "email", "concurrent/futures", "json", "logging", "xml/sax")


def passages() -> list[str]:
    """Different passages of 80 to 500 characters."""
    texts = [*_topics(), *_docstrings()]
    return list(dict.fromkeys(text for text in texts if len(text) >= _LEAST_CHARACTERS))


def embedded(texts: Sequence[str], cache: Path, embedder: Embedder | None = None) -> Vectors:
    """(n, 384) float32, from the cache where they are there."""
    embedder = embedder or minilm_embedder(threads=2)
    parts = []
    for start in range(0, len(texts), _PER_FILE):
        some = texts[start : start + _PER_FILE]
        digest = hashlib.blake2b("\0".join([embedder.id, *some]).encode(), digest_size=12)
        file = cache / f"embeddings-{digest.hexdigest()}.npy"
        if not file.exists():
            cache.mkdir(parents=True, exist_ok=True)
            print(f"embedding {start} of {len(texts)}", end="\r", file=sys.stderr)  # noqa: T201
            part = file.with_suffix(".part.npy")
            np.save(part, embedder.embed_passages(some))
            part.replace(file)
        parts.append(np.load(file))
    return np.concatenate(parts)


def perturbed(vectors: Vectors, count: int, *, seed: int) -> tuple[Vectors, list[int]]:
    """Vectors near to real ones, and which each is near to.

    Returns:
        (count, d) float32, rows L2-normalised; each real one is as often the origin as any other.
    """
    rng = np.random.default_rng(seed)
    origins = rng.permutation(np.arange(count) % len(vectors))
    dimension = vectors.shape[1]
    noise = rng.standard_normal((count, dimension), dtype=np.float32) * NOISE / dimension**0.5
    return normalised(vectors[origins] + noise), origins.tolist()


def _topics() -> Iterator[str]:
    topics = pydoc_data.topics.topics
    for name in sorted(topics):
        held = ""
        for paragraph in re.split(r"\n\s*\n", topics[name]):
            words = " ".join(paragraph.split())
            if held and len(held) + len(words) >= _MOST_CHARACTERS:
                yield held
                held = ""
            held = f"{held} {words}".strip()[:_MOST_CHARACTERS]
        yield held


def _docstrings() -> Iterator[str]:
    library = Path(sysconfig.get_paths()["stdlib"])
    for folder in _FOLDERS:
        for file in sorted((library / folder).glob("*.py")):
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                    yield " ".join((ast.get_docstring(node) or "").split())[:_MOST_CHARACTERS]
