"""What travels between gateways, and the seal around it.

Page keys are sums of token ids times secret factors. Who read them in Redis and knew some of the
prompts could work out the others, so nothing is written there that only Redis's password protects:
messages are encrypted and signed with a key made from the deployment's secret.
"""

import hmac
import secrets
from hashlib import sha256

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES = 12


class Chain(msgspec.Struct, array_like=True, tag="k", frozen=True):
    """Keys of a prompt's pages: the first `base_pages` of chain `base`, then `tail`.

    `number` names it in the notes after it, by the gateway that wrote it; `salt` is an index into
    the batch's salts. Without a base (0) `tail` is all.
    """

    number: int
    salt: int
    base: int
    base_pages: int
    tail: bytes


class Sent(msgspec.Struct, array_like=True, tag="s", frozen=True):
    """A prompt is on its way to a replica; `replica` is an index into the batch's replicas."""

    age_ms: int
    number: int
    replica: int


class Computed(msgspec.Struct, array_like=True, tag="c", frozen=True):
    """Its pages are in the replica's cache."""

    age_ms: int
    number: int
    replica: int


class GaveUp(msgspec.Struct, array_like=True, tag="g", frozen=True):
    """It ended, and perhaps nothing of it was computed."""

    number: int
    replica: int


class Tiered(msgspec.Struct, array_like=True, tag="t", frozen=True):
    """The tiers were given its pages: a replica's own, or where none is named those of all."""

    age_ms: int
    number: int
    replica: int | None = None


class Forgot(msgspec.Struct, array_like=True, tag="f", frozen=True):
    """A salt is never used again."""

    salt: int


class Restarted(msgspec.Struct, array_like=True, tag="r", frozen=True):
    """A replica that publishes no events was seen to begin anew."""

    age_ms: int
    replica: int


Note = Chain | Sent | Computed | GaveUp | Tiered | Forgot | Restarted


class ToldReplica(msgspec.Struct, array_like=True, frozen=True):
    """A replica: gateways may call it by other names. `start` tells two starts of one engine apart,
    where it says something that does; else it is empty."""

    url: str
    start: str


class Batch(msgspec.Struct, array_like=True, frozen=True):
    """One gateway's notes, in order; `number` counts its batches, those that were lost too."""

    gateway: str
    number: int
    replicas: list[ToldReplica]
    salts: list[str]
    notes: list[Note]


class Load(msgspec.Struct, array_like=True, frozen=True):
    """A gateway's requests at one replica, and the tokens to compute of those that haven't
    answered."""

    in_flight: int
    unanswered_tokens: int


class Presence(msgspec.Struct, array_like=True, frozen=True):
    """A gateway that is there. `needs` are URLs of replicas whose events it can't follow."""

    gateway: str
    loads: dict[str, Load]
    needs: list[str]


class Seal:
    """Encrypts what goes out; opens only what a holder of the same secret wrote."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        key = hmac.digest(secret, b"foreword: what gateways tell each other", sha256)
        self._cipher = AESGCM(key)
        self._batch = msgspec.msgpack.Decoder(Batch)
        self._presence = msgspec.msgpack.Decoder(Presence)

    def channel(self, *parts: str) -> str:
        """A name in Redis that tells nothing, for what gateways with one secret share."""
        named = "\0".join(parts).encode()
        return hmac.digest(self._secret, b"foreword: channel\0" + named, sha256).hex()[:32]

    def close(self, message: Batch | Presence) -> bytes:
        """Fit to be written down."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, msgspec.msgpack.encode(message), None)

    def open_batch(self, sealed: bytes) -> Batch | None:
        """None: none of ours, or of another version."""
        try:
            return self._batch.decode(self._opened(sealed))
        except (InvalidTag, ValueError, msgspec.MsgspecError):
            return None

    def open_presence(self, sealed: bytes) -> Presence | None:
        """None: none of ours, or of another version."""
        try:
            return self._presence.decode(self._opened(sealed))
        except (InvalidTag, ValueError, msgspec.MsgspecError):
            return None

    def _opened(self, sealed: bytes) -> bytes:
        return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
