"""What is learned of collections' modes, in the gateway's database: it survives a restart."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.modes.gate import QualityScores
from app.modes.prices import DECIDABLE
from app.schemas import Mode
from app.tables import mode_learning, mode_quality
from retrieval.tables import collections


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredScores:
    """An evaluation of one collection, and when it was made (seconds since the epoch, UTC)."""

    scores: QualityScores
    evaluated_at: float


class ModeStore:
    """Reads and writes; every call blocks."""

    def __init__(self, database: sa.Engine) -> None:
        self._database = database

    def load(self) -> dict[str, Mapping[str, object]]:
        """What was learned, by collection id."""
        with self._database.connect() as connection:
            rows = connection.execute(sa.select(mode_learning)).all()
        return {row.collection_id: row.state for row in rows if isinstance(row.state, dict)}

    def save(self, states: Mapping[str, Mapping[str, object]], at: float) -> None:
        """Write what was learned of some collections."""
        if not states:
            return
        with self._database.begin() as connection:
            _drop(connection, mode_learning, list(states))
            rows = [
                {"collection_id": each, "state": dict(state), "updated_at": at}
                for each, state in states.items()
            ]
            connection.execute(sa.insert(mode_learning), rows)

    def scores(self) -> dict[str, StoredScores]:
        """Every collection's last evaluation, by its id."""
        with self._database.connect() as connection:
            rows = connection.execute(sa.select(mode_quality)).all()
        return {row.collection_id: _stored(row) for row in rows}

    def save_scores(self, collection_id: str, scores: QualityScores, at: float) -> StoredScores:
        """Replace a collection's evaluation."""
        with self._database.begin() as connection:
            _drop(connection, mode_quality, [collection_id])
            values = {
                "collection_id": collection_id,
                "metric": scores.metric,
                "revision": scores.revision,
                "model": scores.model,
                "scores": {mode.value: list(each) for mode, each in scores.scores.items()},
                "evaluated_at": at,
            }
            connection.execute(sa.insert(mode_quality), values)
        return StoredScores(scores=scores, evaluated_at=at)

    def forget_gone(self) -> set[str]:
        """Drop what is known of collections that are gone, however they went; their ids."""
        there = sa.select(collections.c.id)
        gone: set[str] = set()
        with self._database.begin() as connection:
            for table in (mode_learning, mode_quality):
                lost = table.c.collection_id.not_in(there)
                ids = connection.scalars(sa.select(table.c.collection_id).where(lost)).all()
                _drop(connection, table, list(ids))
                gone.update(ids)
        return gone


def _drop(connection: sa.Connection, table: sa.Table, collection_ids: list[str]) -> None:
    connection.execute(sa.delete(table).where(table.c.collection_id.in_(collection_ids)))


def _stored(row: Any) -> StoredScores:
    scores = {
        Mode(name): tuple(float(score) for score in values)
        for name, values in row.scores.items()
        if name in DECIDABLE
    }
    kept = QualityScores(metric=row.metric, revision=row.revision, model=row.model, scores=scores)
    return StoredScores(scores=kept, evaluated_at=row.evaluated_at)
