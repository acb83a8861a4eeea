"""Gateways on one database have one secret."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from app.database import open_database
from app.errors import HomeError
from app.salt_key import require_same_secret
from app.tables import salt_key

OURS, OTHER = bytes(range(32)), bytes(32)


def test_a_gateway_with_another_secret_is_refused_and_told_what_to_do(tmp_path: Path) -> None:
    database = open_database(tmp_path / "foreword.db")
    path = tmp_path / "hmac.key"
    require_same_secret(database, OURS, path)
    require_same_secret(database, OURS, path)

    with pytest.raises(HomeError) as refused:
        require_same_secret(database, OTHER, path)

    told = str(refused.value)
    assert told.startswith(f"{path} can't be used: ")
    assert "copy that file from one of them, or" in told
    assert "\n" not in told
    database.dispose()


def test_the_database_holds_nothing_that_gives_the_secret_away(tmp_path: Path) -> None:
    database = open_database(tmp_path / "foreword.db")
    require_same_secret(database, OURS, tmp_path / "hmac.key")
    with database.connect() as connection:
        (noted,) = connection.scalars(sa.select(salt_key.c.fingerprint)).all()
    assert OURS.hex() not in noted
    assert len(noted) == 64
    database.dispose()


def test_where_the_secret_is_lost_an_emptied_table_lets_one_begin_anew(tmp_path: Path) -> None:
    database = open_database(tmp_path / "foreword.db")
    require_same_secret(database, OURS, tmp_path / "hmac.key")
    with database.begin() as connection:
        connection.execute(sa.delete(salt_key))
    require_same_secret(database, OTHER, tmp_path / "hmac.key")
    database.dispose()
