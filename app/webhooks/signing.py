"""Signatures of the Standard Webhooks specification, version 1. Pure.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import binascii
import hmac
from collections.abc import Mapping

SECRET_PREFIX = "whsec_"
# The specification's bounds of a secret.
_LEAST_BYTES, _MOST_BYTES = 24, 64


def secret_bytes(secret: str) -> bytes:
    """The key in a secret.

    Raises:
        ValueError: it isn't one; says why.
    """
    if not secret.startswith(SECRET_PREFIX):
        raise ValueError(f"a secret begins with {SECRET_PREFIX}")
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"what follows {SECRET_PREFIX} must be base64") from error
    if not _LEAST_BYTES <= len(key) <= _MOST_BYTES:
        raise ValueError(f"a secret has {_LEAST_BYTES} to {_MOST_BYTES} bytes in base64")
    return key


def signed_headers(key: bytes, event_id: str, at: int, body: bytes) -> Mapping[str, str]:
    """The headers that prove who sent a body, and when (seconds since 1970)."""
    signed = f"{event_id}.{at}.".encode() + body
    signature = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{signature}",
    }
