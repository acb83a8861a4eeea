"""A row comes back from the ledger as it went in."""

from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from cache.ledger_lookup import find_last_row, find_row
from cache.ledger_row import LedgerRow, RequestStatus
from cache.rows import insert_rows
from cache.tables import metadata


def test_a_row_comes_back_as_it_went_in(tmp_path: Path) -> None:
    row = LedgerRow(
        request_id="chatcmpl-1",
        at=datetime(2026, 1, 31, 12, tzinfo=UTC),
        tenant="local",
        template="docqa@1",
        status=RequestStatus.ABORTED,
        prompt_tokens=100,
        cached_tokens=0,
        lost={"evicted": 64},
        divergence={"segment": "documents", "token": 7, "of": 100},
        verdict="evicted",
    )
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    metadata.create_all(engine)
    with engine.begin() as connection:
        insert_rows(connection, [row])
        assert find_row(connection, "chatcmpl-1") == row
        assert find_row(connection, "chatcmpl-2") is None
    engine.dispose()


def test_the_last_row_is_of_whom_is_named(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    metadata.create_all(engine)
    with engine.begin() as connection:
        insert_rows(
            connection,
            [
                LedgerRow(
                    request_id=f"chatcmpl-{minute}",
                    at=datetime(2026, 1, 31, 12, minute, tzinfo=UTC),
                    tenant=tenant,
                    template="chat@1",
                    status=RequestStatus.OK,
                )
                for minute, tenant in enumerate(["a", "b", "a", "b"])
            ],
        )
        for tenant, expected in (("a", "chatcmpl-2"), ("b", "chatcmpl-3"), (None, "chatcmpl-3")):
            row = find_last_row(connection, tenant=tenant)
            assert row is not None
            assert row.request_id == expected
        assert find_last_row(connection, tenant="c") is None
    engine.dispose()
