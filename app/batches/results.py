"""What came of a batch's requests, line by line, of which little is held at a time. Blocks."""

from collections.abc import Iterator

import sqlalchemy as sa

from app.batches.records import BatchStatus, ResultLine, unanswered_line
from app.tables import batch_lines

_ROWS = 500
# So much is read at a time, unless one line is longer.
_BYTES = 2**20

_L = batch_lines.c


def result_lines(database: sa.Engine, batch_id: str, ended: BatchStatus) -> Iterator[ResultLine]:
    """Each once, in the order of the batch's file."""
    lines = sa.select(_L.number, _L.custom_id, _L.done, _L.succeeded, _L.result)
    after = -1
    for last in _stops(database, batch_id):
        which = (_L.batch_id == batch_id, _L.number > after, _L.number <= last)
        with database.connect() as connection:
            rows = connection.execute(lines.where(*which).order_by(_L.number)).all()
        for row in rows:
            if row.done:
                yield ResultLine(line=row.result or b"", succeeded=bool(row.succeeded))
            else:
                line = unanswered_line(batch_id, row.number, row.custom_id, ended)
                yield ResultLine(line=line, succeeded=False)
        after = last


def _stops(database: sa.Engine, batch_id: str) -> Iterator[int]:
    """The numbers of the lines up to which is read at a time."""
    size = sa.func.coalesce(sa.func.length(_L.result), 0)
    sizes = sa.select(_L.number, size).where(_L.batch_id == batch_id).order_by(_L.number)
    last, held_bytes = -1, 0
    while True:
        with database.connect() as connection:
            rows = connection.execute(sizes.where(_L.number > last).limit(_ROWS)).all()
        for number, size_bytes in rows:
            if held_bytes and held_bytes + size_bytes > _BYTES:
                yield last
                held_bytes = 0
            last, held_bytes = number, held_bytes + size_bytes
        if rows:
            yield last
            held_bytes = 0
        if len(rows) < _ROWS:
            return
