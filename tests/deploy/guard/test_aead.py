"""A frame opens under its own key and identity, and under nothing else."""

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from foreword_guard.aead import (
    OVERHEAD_BYTES,
    ObjectIdentity,
    open_into,
    read_master_key,
    seal_into,
)
from foreword_guard.errors import FrameError, KeyFileError

CIPHER = AESGCM(bytes(range(32)))

identities = st.builds(
    ObjectIdentity,
    model_name=st.text(max_size=8),
    kv_rank=st.integers(0, 2**40),
    object_group_id=st.integers(0, 3),
    chunk_hash=st.binary(max_size=8),
    cache_salt=st.text(max_size=4),
    codec=st.sampled_from(["", "fp8", "turboquant"]),
)
IDENTITY = ObjectIdentity(
    model_name="m", kv_rank=0, object_group_id=0, chunk_hash=b"h" * 32, cache_salt="tenant"
)


def seal(plaintext: bytes, identity: ObjectIdentity = IDENTITY, cipher: AESGCM = CIPHER) -> bytes:
    frame = bytearray(len(plaintext) + OVERHEAD_BYTES)
    assert seal_into(memoryview(frame), plaintext, cipher=cipher, identity=identity) == len(frame)
    return bytes(frame)


def unseal(
    frame: bytes, size: int, identity: ObjectIdentity = IDENTITY, cipher: AESGCM = CIPHER
) -> bytes:
    target = bytearray(size)
    open_into(memoryview(target), memoryview(frame), cipher=cipher, identity=identity)
    return bytes(target)


@given(plaintext=st.binary(max_size=300), identity=identities, padding=st.binary(max_size=40))
def test_what_was_sealed_opens_again_whatever_follows_it(
    plaintext: bytes, identity: ObjectIdentity, padding: bytes
) -> None:
    assert unseal(seal(plaintext, identity) + padding, len(plaintext), identity) == plaintext


@given(plaintext=st.binary(min_size=1, max_size=200), data=st.data())
def test_any_flipped_bit_is_rejected(plaintext: bytes, data: st.DataObject) -> None:
    frame = bytearray(seal(plaintext))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8

    with pytest.raises(FrameError):
        unseal(bytes(frame), len(plaintext))


@given(plaintext=st.binary(min_size=1, max_size=200), data=st.data())
def test_any_truncation_is_rejected(plaintext: bytes, data: st.DataObject) -> None:
    frame = seal(plaintext)
    kept = data.draw(st.integers(0, len(frame) - 1))

    with pytest.raises(FrameError):
        unseal(frame[:kept], len(plaintext))


@given(plaintext=st.binary(max_size=64), mine=identities, other=identities)
def test_a_frame_under_another_identity_is_rejected(
    plaintext: bytes, mine: ObjectIdentity, other: ObjectIdentity
) -> None:
    frame = seal(plaintext, mine)
    if mine == other:
        assert unseal(frame, len(plaintext), other) == plaintext
    else:
        with pytest.raises(FrameError):
            unseal(frame, len(plaintext), other)


@given(a=identities, b=identities)
def test_identities_differ_exactly_when_their_associated_data_does(
    a: ObjectIdentity, b: ObjectIdentity
) -> None:
    assert (a == b) == (a.associated_data() == b.associated_data())


def test_another_key_opens_nothing() -> None:
    frame = seal(b"kv")

    with pytest.raises(FrameError):
        unseal(frame, 2, cipher=AESGCM(os.urandom(32)))


def test_the_same_chunk_never_gives_the_same_frame_twice() -> None:
    assert seal(b"kv") != seal(b"kv")


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_length_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "kv.key"
    path.touch(mode=0o600)
    path.write_bytes(bytes(size))

    with pytest.raises(KeyFileError, match=f"has {size} bytes"):
        read_master_key(path)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kv.key"
    path.write_bytes(bytes(32))
    path.chmod(0o644)

    with pytest.raises(KeyFileError, match="other users"):
        read_master_key(path)


def test_a_missing_key_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="can't be read"):
        read_master_key(tmp_path / "none")
    with pytest.raises(KeyFileError, match="FOREWORD_KV_KEY_FILE is not set"):
        read_master_key(None)
