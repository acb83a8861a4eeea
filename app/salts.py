"""Cache salts: what keeps one tenant's KV from another's, and one collection's from another's.

A salt is an HMAC of whose KV it is, under a secret that is made once. The secret is secret; the
salts are not (LMCache uses them as metric labels).
"""

import hmac
import os
import secrets
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import orjson

from app.errors import HomeError

_SECRET_BYTES = 32
# LMCache takes up to 128 characters, none of "@/\\"; 32 hex digits are 128 bits.
_SALT_CHARACTERS = 32
_MOST_KNOWN = 10_000


class Salts:
    """Salts under one secret.

    A tenant's epoch is part of its salts: with the next one, nothing that was computed under the
    old ones is ever addressed again. A tenant that isn't in `epochs` is in epoch 0.
    """

    def __init__(self, secret: bytes, epochs: Mapping[str, int] | None = None) -> None:
        self._secret = secret
        self._epochs = dict(epochs or {})
        self._known: dict[tuple[str | int | None, ...], str] = {}

    def of(
        self, tenant: str, collection_id: str | None = None, *, adapter: str | None = None
    ) -> str:
        """32 hex digits, never empty (SGLang takes an empty salt for none).

        Each collection has a salt of its own, so that its KV can be destroyed alone, and so has
        each adapter: KV events don't tell an adapter's pages from the model's.
        """
        whose: tuple[str | int | None, ...] = (tenant, self.epoch(tenant), collection_id)
        if adapter is not None:
            whose = (*whose, adapter)
        known = self._known.get(whose)
        if known is not None:
            return known
        salt = hmac.digest(self._secret, orjson.dumps(whose), sha256).hex()[:_SALT_CHARACTERS]
        # One object for each salt: what is remembered of thousands of prompts refers to it.
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[whose] = salt = sys.intern(salt)
        return salt

    def epoch(self, tenant: str) -> int:
        """How often the tenant's KV was deleted."""
        return self._epochs.get(tenant, 0)

    def begin_epoch(self, tenant: str, epoch: int) -> None:
        """From now on the tenant's salts are those of `epoch`; there is no way back to an older."""
        self._epochs[tenant] = max(epoch, self.epoch(tenant))


def load_or_create_secret(path: Path) -> bytes:
    """The secret in a file that only its owner may read; made on the first call.

    Raises:
        HomeError: the file is cut short, or can't be read or made.
    """
    try:
        try:
            secret = path.read_bytes()
        except FileNotFoundError:
            secret = _create(path)
    except OSError as error:
        raise HomeError(path, error.strerror or str(error)) from error
    if len(secret) != _SECRET_BYTES:
        raise HomeError(path, f"it should hold {_SECRET_BYTES} bytes and holds {len(secret)}")
    return secret


def _create(path: Path) -> bytes:
    """Written aside and linked into place, so that a crash or a twin can't leave half a secret."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(_SECRET_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(aside, path)
    except FileExistsError:
        pass  # another process was first: its secret holds
    finally:
        aside.unlink()
    return path.read_bytes()
