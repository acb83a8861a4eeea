"""Collections on disk, with an embedder that needs no model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy

from retrieval import Collections, HashingEmbedder, metadata


@contextmanager
def opened_collections(folder: Path) -> Iterator[Collections]:
    """Empty ones; measured in words."""
    engine = sqlalchemy.create_engine(f"sqlite:///{folder / 'foreword.db'}")
    metadata.create_all(engine)
    made = Collections(engine, folder, HashingEmbedder(), lambda text: len(text.split()))
    try:
        yield made
    finally:
        made.close()
        engine.dispose()
