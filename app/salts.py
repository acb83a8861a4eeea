"""Cache salts: what keeps one tenant's KV from another's.

A salt is an HMAC of the tenant's name under a secret that is made once. The secret is secret; the
salts are not (LMCache uses them as metric labels).
"""

import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path

from app.errors import HomeError

_SECRET_BYTES = 32
# LMCache takes up to 128 characters, none of "@/\\"; 32 hex digits are 128 bits.
_SALT_CHARACTERS = 32


class Salts:
    """Salts under one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, tenant: str) -> str:
        """The tenant's salt: 32 hex digits, never empty (SGLang takes an empty one for none)."""
        return hmac.new(self._secret, tenant.encode(), sha256).hexdigest()[:_SALT_CHARACTERS]


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
    path.parent.mkdir(parents=True, exist_ok=True)
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
