"""Each salt has a key of its own; once destroyed it is gone, for this process and the next."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from foreword_guard.errors import FrameError, SaltDestroyedError, SaltKeyError
from foreword_guard.salt_key_files import KEPT_S, SaltKeyFiles
from foreword_guard.salt_keys import SaltKeys, is_salt, salt_folder

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


@contextmanager
def hanging(folder: Path, salt: str) -> Iterator[None]:
    """A pipe in a key's place, which is read for ever until somebody writes into it."""
    folder.mkdir(exist_ok=True)
    files = SaltKeyFiles(MASTER, folder)
    pipe = files.path(files.name(salt))
    os.mkfifo(pipe)
    yield
    pipe.write_bytes(b"")


def refused(keys: SaltKeys, salt: str) -> None:
    with pytest.raises(SaltKeyError, match="doesn't answer in time"):
        keys.for_sealing(salt)


class BusyDisk(SaltKeyFiles):
    """Neither takes a new key nor destroys one until it is told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(MASTER, folder)
        self.is_writing, self.may_write = threading.Event(), threading.Event()

    def make(self, salt: str) -> None:
        self.is_writing.set()
        assert self.may_write.wait(60)
        super().make(salt)

    def destroy(self, name: str) -> None:
        assert self.may_write.wait(60)
        super().destroy(name)


def test_a_key_that_a_busy_disk_is_slow_to_take_is_waited_for(folder: Path) -> None:
    disk = BusyDisk(folder)
    keys = SaltKeys(MASTER, folder, wait_s=0.05, files=disk)
    sealed: list[bytes] = []
    sealing = threading.Thread(target=lambda: sealed.append(sealed_by(keys.for_sealing("new"))))
    sealing.start()
    assert disk.is_writing.wait(60)
    with hanging(folder, "slow"), pytest.raises(SaltKeyError):
        keys.for_opening("slow")  # and so what a load waits for has passed
    assert sealing.is_alive()
    assert not keys.has("new")

    disk.may_write.set()
    sealing.join(60)

    assert keys.has("new")
    assert sealed == [sealed_by(SaltKeys(MASTER, folder, wait_s=60).for_opening("new"))]


def test_a_new_key_that_is_late_keeps_no_load_from_its_own(folder: Path) -> None:
    SaltKeys(MASTER, folder).for_sealing("on disk")
    disk = BusyDisk(folder)
    keys = SaltKeys(MASTER, folder, wait_s=60, make_wait_s=0.05, files=disk)
    refused(keys, "new")

    keys.for_opening("on disk")
    assert keys.has("on disk")
    disk.may_write.set()


def test_a_load_that_is_late_keeps_no_new_key_from_being_made(folder: Path) -> None:
    keys = SaltKeys(MASTER, folder, wait_s=0.05)
    with hanging(folder, "slow"):
        with pytest.raises(SaltKeyError):
            keys.for_opening("slow")
        keys.for_sealing("new")

    assert keys.has("new")


def test_a_disk_that_hangs_holds_up_only_what_needs_it_and_that_not_for_long(folder: Path) -> None:
    keys = SaltKeys(MASTER, folder)
    known = sealed_by(keys.for_sealing("known"))
    keys._make_wait_s = 5
    threads = threading.active_count()  # other tests of this process may have left some
    with hanging(folder, "slow"):
        waiting = threading.Thread(target=refused, args=(keys, "slow"))
        waiting.start()
        assert sealed_by(keys.for_sealing("known")) == known
        assert waiting.is_alive()
        waiting.join(60)
        assert not waiting.is_alive()

        keys._make_wait_s = 60
        began = time.monotonic()
        for salt in ("slow", "new", "newer"):
            refused(keys, salt)
        assert keys.counts()[1] == 0
        assert time.monotonic() - began < 30, "once it is known to hang nobody waits"
        assert threading.active_count() < threads + 8
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            keys.for_sealing("new")
            keys.for_sealing("slow")
            return
        except SaltKeyError:
            time.sleep(0.01)
    pytest.fail("the disk answers again, and isn't used")


def test_a_salt_that_a_hanging_disk_keeps_from_being_destroyed_is_told_and_not_used(
    folder: Path,
) -> None:
    disk = BusyDisk(folder)
    keys = SaltKeys(MASTER, folder, files=disk)
    with pytest.raises(SaltKeyError, match="doesn't answer in time"):
        keys.destroy("known")
    assert keys.is_destroyed("known")
    disk.may_write.set()


def test_a_key_that_is_read_while_its_salt_is_destroyed_is_used_for_nothing(folder: Path) -> None:
    keys = SaltKeys(MASTER, folder, make_wait_s=20)
    with hanging(folder, "tenant"):
        failures: list[BaseException] = []

        def seal() -> None:
            try:
                keys.for_sealing("tenant")
            except SaltDestroyedError as error:
                failures.append(error)

        sealing = threading.Thread(target=seal)
        sealing.start()
        time.sleep(0.1)
        (pipe,) = files(folder, ".key")
        pipe.with_suffix(".gone").touch()
    sealing.join(30)
    assert len(failures) == 1
    assert files(folder, ".key") == []


def test_a_mark_goes_once_no_request_can_know_its_salt_any_more(folder: Path) -> None:
    keys = SaltKeys(MASTER, folder)
    keys.for_sealing("old")
    keys.destroy("old")
    (mark,) = files(folder, ".gone")
    ago = time.time() - KEPT_S - 60
    os.utime(mark, (ago, ago))
    keys.destroy("new")

    assert not keys.is_destroyed("old")
    assert keys.is_destroyed("new")
    assert keys.counts() == (0, 1)
    with pytest.raises(FrameError):
        keys.for_opening("old")
    assert SaltKeys(MASTER, folder).counts() == (0, 1)


def test_an_old_mark_stays_while_its_key_is_there(folder: Path) -> None:
    key_files = SaltKeyFiles(MASTER, folder)
    key_files.make("tenant")
    name = key_files.name("tenant")
    key_files.path(name).with_suffix(".gone").touch()

    assert key_files.forget_old(time.time() + 2 * KEPT_S) == set()
    key_files.remove(name)
    assert key_files.forget_old(time.time() + 2 * KEPT_S) == {name}


@pytest.mark.parametrize("name", ["", "a", "A" * 32, "0" * 31, "0" * 33, f"a/{'0' * 32}", " "])
def test_what_is_no_salt_is_told_from_what_is(name: str) -> None:
    assert not is_salt(name)
    assert is_salt("0123456789abcdef" * 2)
    assert is_salt(f"foreword-probe-{'0' * 32}")
