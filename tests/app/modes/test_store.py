"""What was learned, in the gateway's database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.database import open_database
from app.modes.gate import QualityScores
from app.modes.store import ModeStore
from app.schemas import Mode
from retrieval.tables import collections


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = open_database(tmp_path / "foreword.db")
    yield engine
    engine.dispose()


def scores(metric: str) -> QualityScores:
    return QualityScores(
        metric=metric, revision=3, model="m", scores={Mode.RAG: (1.0, 0.5), Mode.CAG: (0.0, 1.0)}
    )


def test_states_and_scores_are_read_as_they_were_written(database: sa.Engine) -> None:
    store = ModeStore(database)
    store.save({"vs_1": {"mode": "rag"}, "vs_2": {"mode": "cag"}}, 1.0)
    store.save({"vs_1": {"mode": "cag", "found": {"d": 1.5}}}, 2.0)
    store.save({}, 3.0)
    store.save_scores("vs_1", scores("exact_match"), 4.0)
    stored = store.save_scores("vs_1", scores("token_f1"), 5.0)
    again = ModeStore(database)
    assert again.load() == {
        "vs_1": {"mode": "cag", "found": {"d": 1.5}},
        "vs_2": {"mode": "cag"},
    }
    assert again.scores() == {"vs_1": stored}


def test_what_is_known_of_gone_collections_goes(database: sa.Engine) -> None:
    store = ModeStore(database)
    with database.begin() as connection:
        connection.execute(
            sa.insert(collections).values(
                id="vs_1", tenant="t", name="n", embedder="e", dimension=2, revision=1, created_at=1
            )
        )
    store.save({"vs_1": {}, "vs_2": {}}, 1.0)
    store.save_scores("vs_3", scores("token_f1"), 1.0)
    assert store.forget_gone() == {"vs_2", "vs_3"}
    assert set(store.load()) == {"vs_1"}
    assert store.scores() == {}
