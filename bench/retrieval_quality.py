"""How well a search finds, on a real corpus: `python -m bench.retrieval_quality`.

Some 70 questions with known answers were asked of the manuals in four packages
(`bench.retrieval_corpus`), written down before anything was tuned. Every other one is held out:
settings may be chosen by the tuning half alone. A question counts as found at k when a passage
that holds its answer is among the first k.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
import sqlalchemy

from bench.retrieval_corpus import DATA, CorpusFile, corpus_files, read_packages
from bench.retrieval_embeddings import KeptEmbedder, save_vectors
from bench.soak.environment import environment
from retrieval import (
    Collections,
    FusionSettings,
    ScoredChunk,
    SearchMode,
    SearchSettings,
    metadata,
    minilm_embedder,
    parse_filter,
)
from retrieval.chunking import ChunkingSettings
from retrieval.prepare import embedding_text

RESULTS = Path(__file__).parent / "results" / "retrieval-quality.json"
DEPTHS = (1, 4, 8, 16)
TENANT = "bench"
_CACHE = Path(".foreword/cache")
_KEPT = "minilm.npz"


class Half(StrEnum):
    """Which questions: those that settings may be chosen by, and those that judge them."""

    TUNING = "tuning"
    HELD_OUT = "held out"


class Way(StrEnum):
    """What is compared."""

    VECTORS = "vectors (flat, exact)"
    WORDS = "words (BM25)"
    HYBRID = "hybrid"
    FILTERED = "hybrid, one package"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an answer stands: a file, and a pattern that its passage holds."""

    file: str
    passage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, its known answer, and all places that give it."""

    half: Half
    kind: str
    question: str
    answer: str
    places: tuple[Place, ...]

    @property
    def package(self) -> str:
        """The package whose manual answers it."""
        return self.places[0].file.partition("/")[0]

    def is_answered_by(self, name: str, text: str) -> bool:
        """Whether a passage of a file holds the answer; white space doesn't count."""
        flat = " ".join(text.split())
        return any(name == p.file and re.search(p.passage, flat) for p in self.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question asked in one way; `rank` of the first right passage, None: not among the 16."""

    way: Way
    half: Half
    kind: str
    question: str
    rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RealCorpus:
    """The corpus as a collection."""

    collections: Collections
    id: str
    embedder: KeptEmbedder
    files: tuple[CorpusFile, ...]

    def search(self, question: Question, way: Way, k: int) -> list[ScoredChunk]:
        """The k best passages, best first."""
        mode, filters = SearchMode.HYBRID, None
        match way:
            case Way.VECTORS:
                mode = SearchMode.VECTOR
            case Way.WORDS:
                mode = SearchMode.LEXICAL
            case Way.FILTERED:
                filters = parse_filter({"type": "eq", "key": "package", "value": question.package})
        return self.collections.search(
            self.id, question.question, k, tenant=TENANT, mode=mode, filters=filters
        )

    def close(self) -> None:
        """Ends the collections' threads."""
        self.collections.close()


def read_questions(data: Path = DATA) -> list[Question]:
    """All questions in their order; every other one is held out."""
    lines = (data / "questions.jsonl").read_text("utf-8").splitlines()
    return [
        Question(
            **{**json.loads(line), "places": tuple(Place(**p) for p in json.loads(line)["places"])},
            half=Half.HELD_OUT if number % 2 else Half.TUNING,
        )
        for number, line in enumerate(lines)
    ]


@contextmanager
def open_corpus(
    folder: Path, cache: Path, *, searching: SearchSettings | None = None
) -> Iterator[RealCorpus]:
    """The corpus, ingested into an empty folder as the gateway does it.

    Args:
        cache: for packages and for embeddings that aren't kept with the questions.

    Raises:
        CorpusError: a package can't be had.
    """
    model = minilm_embedder(threads=2)
    embedder = KeptEmbedder(DATA / _KEPT, cache / "retrieval-embeddings", model=model)
    files = tuple(corpus_files(cache))
    engine = _quick_database(folder / "corpus.db")
    collections = Collections(
        engine, folder / "retrieval", embedder, model.count_tokens, searching=searching
    )
    corpus = RealCorpus(
        collections=collections,
        id=collections.create("manuals", tenant=TENANT).id,
        embedder=embedder,
        files=files,
    )
    for file in files:
        saved = collections.save_file(file.name, file.data, "assistants", tenant=TENANT)
        attributes = {"package": file.package}
        collections.add_file(corpus.id, saved.id, tenant=TENANT, attributes=attributes)
    try:
        yield corpus
    finally:
        corpus.close()
        engine.dispose()


def ask_all(corpus: RealCorpus, questions: Sequence[Question], way: Way) -> list[Asked]:
    """Every question, in one way."""
    return [
        Asked(
            way=way,
            half=question.half,
            kind=question.kind,
            question=question.question,
            rank=rank_of(question, corpus.search(question, way, DEPTHS[-1])),
        )
        for question in questions
    ]


def rank_of(question: Question, found: Sequence[ScoredChunk]) -> int | None:
    """The 1-based rank of the first passage that holds the answer."""
    for rank, scored in enumerate(found, start=1):
        if question.is_answered_by(scored.chunk.name, scored.chunk.text):
            return rank
    return None


def recall(asked: Sequence[Asked], k: int) -> float:
    """The share of questions that are found among the first k; 0 of none."""
    return sum(a.rank is not None and a.rank <= k for a in asked) / max(len(asked), 1)


def reciprocal_rank(asked: Sequence[Asked]) -> float:
    """The mean of 1 / rank, 0 for what isn't found; 0 of none."""
    return sum(1 / a.rank for a in asked if a.rank is not None) / max(len(asked), 1)


def table(asked: Sequence[Asked]) -> str:
    """Markdown: a line for each half and way."""
    heads = " | ".join(f"recall@{k}" for k in DEPTHS)
    lines = [f"| questions | searched by | {heads} | MRR |", "|---|---|" + "--:|" * 5]
    for half in Half:
        for way in Way:
            of = [a for a in asked if a.half is half and a.way is way]
            if of:
                shares = " | ".join(f"{recall(of, k):.3f}" for k in DEPTHS)
                mean = reciprocal_rank(of)
                lines.append(f"| {half} ({len(of)}) | {way} | {shares} | {mean:.3f} |")
    return "\n".join(lines)


def keep_embeddings(corpus: RealCorpus, questions: Sequence[Question], data: Path = DATA) -> None:
    """Keeps the vectors of all passages and questions beside the questions."""
    passages = corpus.collections.corpus_chunks(corpus.id, tenant=TENANT)
    vectors = corpus.embedder.vectors_of(
        [embedding_text(passage) for passage in passages], [q.question for q in questions]
    )
    save_vectors(data / _KEPT, vectors)


def summary(
    corpus: RealCorpus, asked: Sequence[Asked], searching: SearchSettings
) -> dict[str, Any]:
    """All that is needed to judge the figures, ranks of single questions included."""
    documents = corpus.collections.corpus(corpus.id, tenant=TENANT)
    return {
        "environment": environment(),
        "embedder": corpus.embedder.id,
        "packages": [f"{p.name} {p.version} sha256:{p.sha256}" for p in read_packages()],
        "files": len(corpus.files),
        "text_bytes": sum(len(d.text.encode()) for d in documents.documents),
        "chunks": len(documents.chunks),
        "chunking": asdict(ChunkingSettings()),
        "searching": asdict(searching),
        "table": table(asked).splitlines(),
        "asked": [asdict(a) for a in asked],
    }


def _quick_database(path: Path) -> sqlalchemy.Engine:
    """An SQLite file with retrieval's tables that waits for no disk."""
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")

    @sqlalchemy.event.listens_for(engine, "connect")
    def _hurry(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    metadata.create_all(engine)
    return engine


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--cache", type=click.Path(path_type=Path), default=_CACHE)
@click.option("--vector-weight", default=FusionSettings().vector_weight)
@click.option("--lexical-weight", default=FusionSettings().lexical_weight)
@click.option("--keep", is_flag=True, help="Keep the embeddings with the questions, anew.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS)
def main(
    cache: Path,
    vector_weight: float,
    lexical_weight: float,
    keep: bool,
    out: Path,
) -> None:
    """Ingest, ask, print the table, write the results."""
    fusion = FusionSettings(vector_weight=vector_weight, lexical_weight=lexical_weight)
    searching = SearchSettings(fusion=fusion)
    questions = read_questions()
    with (
        tempfile.TemporaryDirectory(prefix="foreword-bench-") as folder,
        open_corpus(Path(folder), cache, searching=searching) as corpus,
    ):
        asked = [a for way in Way for a in ask_all(corpus, questions, way)]
        click.echo(table(asked))
        if corpus.embedder.missed:
            click.echo(f"{len(corpus.embedder.missed)} texts had to be embedded", err=True)
        if keep:
            keep_embeddings(corpus, questions)
        out.write_text(json.dumps(summary(corpus, asked, searching), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
