"""Keys without a gateway: for the first one, and for whoever owns the home folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from app.admission.keys import KeyStatus
from app.admission.store import AdmissionStore
from app.database import open_database
from app.salt_key import require_same_secret
from app.salts import load_or_create_secret


@contextmanager
def open_store(home: Path, database_url: str | None) -> Iterator[AdmissionStore]:
    """The keys of a deployment, of which a gateway may be running: it sees changes in a second.

    Raises:
        DatabaseError, HomeError: they can't be read or made there.
    """
    path = home / "hmac.key"
    secret = load_or_create_secret(path)
    database = open_database(database_url or home / "foreword.db")
    try:
        require_same_secret(database, secret, path)
        yield AdmissionStore(database, secret)
    finally:
        database.dispose()


def keys_exist(home: Path, database_url: str | None) -> bool:
    """Whether a key opens anything. Where there is no database yet, none is made.

    Raises:
        DatabaseError, HomeError: it can't be read.
    """
    if database_url is None and not (home / "foreword.db").is_file():
        return False
    now = datetime.now(UTC)
    with open_store(home, database_url) as store:
        return any(record.status(now) is KeyStatus.ACTIVE for record in store.all_keys())
