"""Each salt has a key of its own; once destroyed it is gone, for this process and the next."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from foreword_guard.errors import FrameError, SaltDestroyedError, SaltKeyError
from foreword_guard.salt_keys import SaltKeys, salt_folder

MASTER = bytes(range(32))
NONCE = bytes(12)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kv.keys"


def sealed_by(cipher: AESGCM) -> bytes:
    return cipher.encrypt(NONCE, b"kv", None)


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))


def test_no_two_salts_share_a_key(folder: Path) -> None:
    keys = SaltKeys(MASTER, folder)

    assert len({sealed_by(keys.for_sealing(salt)) for salt in ("", "a", "b", "a\x00b")}) == 4


def test_a_restart_finds_the_same_keys(folder: Path) -> None:
    sealed = sealed_by(SaltKeys(MASTER, folder).for_sealing("tenant"))

    assert SaltKeys(MASTER, folder).for_opening("tenant").decrypt(NONCE, sealed, None) == b"kv"


def test_two_processes_agree_on_a_key_whoever_was_first(folder: Path) -> None:
    one, other = SaltKeys(MASTER, folder), SaltKeys(MASTER, folder)

    assert sealed_by(one.for_sealing("tenant")) == sealed_by(other.for_sealing("tenant"))


def test_what_was_never_stored_under_has_no_key_to_open_with(folder: Path) -> None:
    with pytest.raises(FrameError, match="no key"):
        SaltKeys(MASTER, folder).for_opening("tenant")
    assert not folder.exists()


def test_a_destroyed_salt_stays_destroyed_over_a_restart(folder: Path) -> None:
    keys = SaltKeys(MASTER, folder)
    keys.for_sealing("tenant")
    keys.for_sealing("other")
    keys.destroy("tenant")

    for process in (keys, SaltKeys(MASTER, folder)):
        assert process.is_destroyed("tenant")
        assert not process.is_destroyed("other")
        assert process.counts() == (1, 1)
        for use in (process.for_sealing, process.for_opening):
            with pytest.raises(SaltDestroyedError):
                use("tenant")
        process.for_opening("other")


def test_another_process_sees_the_destruction_when_it_next_needs_the_key(folder: Path) -> None:
    other = SaltKeys(MASTER, folder)
    SaltKeys(MASTER, folder).destroy("tenant")

    with pytest.raises(SaltDestroyedError):
        other.for_sealing("tenant")


def test_destroying_twice_or_what_never_was_is_no_error(folder: Path) -> None:
    keys = SaltKeys(MASTER, folder)
    keys.destroy("tenant")
    keys.destroy("tenant")

    assert keys.counts() == (0, 1)


def test_a_destruction_that_a_crash_interrupted_is_finished_at_the_next_start(folder: Path) -> None:
    SaltKeys(MASTER, folder).for_sealing("tenant")
    (key,) = files(folder, ".key")
    key.with_suffix(".gone").touch()

    assert SaltKeys(MASTER, folder).is_destroyed("tenant")
    assert not key.exists()


def test_the_folder_is_private_and_names_nobody(folder: Path) -> None:
    keys = SaltKeys(MASTER, folder)
    keys.for_sealing("tenant")
    keys.destroy("gone-tenant")

    assert folder.stat().st_mode & 0o777 == 0o700
    (key,) = files(folder, ".key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert not any("tenant" in path.name for path in folder.iterdir())
    assert not any(b"tenant" in path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("damage", [b"", b"short", bytes(61)])
def test_a_damaged_key_opens_nothing_and_is_replaced(folder: Path, damage: bytes) -> None:
    before = sealed_by(SaltKeys(MASTER, folder).for_sealing("tenant"))
    (key,) = files(folder, ".key")
    key.write_bytes(damage)

    with pytest.raises(FrameError):
        SaltKeys(MASTER, folder).for_opening("tenant")
    assert sealed_by(SaltKeys(MASTER, folder).for_sealing("tenant")) != before


def test_another_master_key_finds_nothing(folder: Path) -> None:
    SaltKeys(MASTER, folder).for_sealing("tenant")

    with pytest.raises(FrameError):
        SaltKeys(bytes(32), folder).for_opening("tenant")


def test_a_folder_that_cant_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SaltKeyError, match="file/keys"):
        SaltKeys(MASTER, tmp_path / "file" / "keys").for_sealing("tenant")


def test_the_keys_lie_beside_the_master_key() -> None:
    assert salt_folder(Path("/home/kv.key")) == Path("/home/kv.keys")
