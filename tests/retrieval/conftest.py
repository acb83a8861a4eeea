"""Real parts for retrieval's tests: a trained BPE tokenizer, SQLite files, FAISS."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from retrieval import (
    Collections,
    HashingEmbedder,
    SentenceTransformerEmbedder,
    metadata,
    minilm_embedder,
)
from tests.postgres_server import PostgresServer, pgvector_programs, running_postgres

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"

CountTokens = Callable[[str], int]


@pytest.fixture(scope="session")
def count_tokens() -> CountTokens:
    """Counts by a byte-level BPE tokenizer trained on the sample texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=800,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    texts = [path.read_text() for path in sorted(SAMPLES.glob("ferry/*")) if path.suffix != ".pdf"]
    tokenizer.train_from_iterator(texts, trainer)

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count


@pytest.fixture(scope="session")
def make_pdf() -> Callable[[tuple[tuple[str, ...], ...]], bytes]:
    """Builds a PDF from pages of lines, by the script that makes the sample PDF."""
    path = SAMPLES / "make_safety_pdf.py"
    spec = importlib.util.spec_from_file_location("make_safety_pdf", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build: Callable[[tuple[tuple[str, ...], ...]], bytes] = module.pdf_bytes
    return build


@pytest.fixture(scope="session")
def minilm() -> SentenceTransformerEmbedder:
    """The real embedding model, loaded once; for tests marked `slow`."""
    return minilm_embedder()


@pytest.fixture(scope="session")
def pgvector_server() -> Iterator[PostgresServer]:
    """A real PostgreSQL with pgvector; for tests marked `slow`."""
    with running_postgres(pgvector_programs()) as server:
        yield server


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlalchemy.Engine]:
    """An SQLite file with retrieval's tables."""
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'foreword.db'}")
    metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def open_collections(
    database: sqlalchemy.Engine, tmp_path: Path, count_tokens: CountTokens
) -> Callable[..., Collections]:
    """Opens the collections of this test's home; again gives what a restart would find."""

    def open_(**options: object) -> Collections:
        arguments = {"embedder": HashingEmbedder(), "count_tokens": count_tokens} | options
        return Collections(database, tmp_path / "retrieval", **arguments)

    return open_


@pytest.fixture
def collections(open_collections: Callable[..., Collections]) -> Collections:
    return open_collections()
