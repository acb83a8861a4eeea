"""All gateways on one database make their salts with the same secret, or none starts.

With another secret a gateway would address other KV for the same tenant, and what it deletes would
be under salts that nobody else uses: KV of deleted tenants would live on.
"""

import hmac
from hashlib import sha256
from pathlib import Path

import sqlalchemy as sa

from app.errors import HomeError
from app.tables import salt_key

_ONLY = 1


def require_same_secret(database: sa.Engine, secret: bytes, path: Path) -> None:
    """The first gateway on a database notes a fingerprint of its secret; the others must have it.

    Args:
        path: of the secret, for the error.

    Raises:
        HomeError: the database is used with another secret.
    """
    ours = hmac.digest(secret, b"foreword: fingerprint of the salts' key", sha256).hex()
    try:
        theirs = _noted(database, ours)
    except sa.exc.IntegrityError:  # another was a moment earlier
        theirs = _noted(database, ours)
    if theirs != ours:
        raise HomeError(
            path,
            "the gateways on this database have another secret: copy that file from one of them, "
            "or, where it is lost and none runs, empty the table salt_key to begin with this one",
        )


def _noted(database: sa.Engine, ours: str) -> str:
    with database.begin() as connection:
        theirs = connection.scalar(sa.select(salt_key.c.fingerprint))
        if theirs is None:
            connection.execute(sa.insert(salt_key).values(id=_ONLY, fingerprint=ours))
    return ours if theirs is None else theirs
