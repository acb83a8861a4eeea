"""What is refused before anything starts: versions, settings, adapters in the clear."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from foreword_guard.adapters import require_sealed, without_missing_folders
from foreword_guard.errors import SettingError, UnsealedAdapterError, VersionMismatchError
from foreword_guard.identity import TierIdentity
from foreword_guard.settings import GuardSettings
from foreword_guard.versions import LMCACHE, SGLANG, require

SEALED = {"type": "fs_native", "base_path": "kv", "serde": {"type": "foreword_aead"}}


def having(**versions: str) -> Callable[[str], str | None]:
    return versions.get


def test_the_supported_releases_pass_with_any_local_build() -> None:
    require(SGLANG, LMCACHE, installed=having(sglang="0.5.23", lmcache="0.5.6+cu13"))


@pytest.mark.parametrize("found", ["0.5.24", "0.5.2", "0.5.23.post1"])
def test_another_release_is_refused_by_name(found: str) -> None:
    with pytest.raises(VersionMismatchError, match=r"install sglang==0\.5\.23") as refusal:
        require(SGLANG, installed=having(sglang=found))

    assert refusal.value.found == found


def test_a_missing_package_is_refused() -> None:
    with pytest.raises(VersionMismatchError, match="lmcache is not installed"):
        require(SGLANG, LMCACHE, installed=having(sglang="0.5.23"))


def test_settings_come_from_the_environment() -> None:
    settings = GuardSettings.from_environment(
        {"FOREWORD_TIER_DEADLINE_S": "0.5", "FOREWORD_TIER_BREAKER_FAILURES": "2"}
    )

    assert settings == GuardSettings(deadline_s=0.5, failures=2, retry_s=5.0)


@pytest.mark.parametrize("value", ["", "soon", "0", "-1", "nan", "inf", "1e9"])
def test_a_deadline_that_is_no_positive_number_is_refused(value: str) -> None:
    with pytest.raises(SettingError, match="FOREWORD_TIER_DEADLINE_S"):
        GuardSettings.from_environment({"FOREWORD_TIER_DEADLINE_S": value})


@pytest.mark.parametrize("value", ["1.5", "0"])
def test_a_failure_count_that_is_no_whole_number_is_refused(value: str) -> None:
    with pytest.raises(SettingError, match="positive whole number"):
        GuardSettings.from_environment({"FOREWORD_TIER_BREAKER_FAILURES": value})


@pytest.mark.parametrize("form", ["apart", "joined"])
def test_an_adapter_in_the_clear_is_refused(form: str) -> None:
    value = json.dumps({"type": "resp", "host": "h", "port": 1})
    arguments = ["--l2-adapter", value] if form == "apart" else [f"--l2-adapter={value}"]

    with pytest.raises(UnsealedAdapterError, match="foreword_aead"):
        require_sealed(["--l2-adapter", json.dumps(SEALED), *arguments])


def test_lmcaches_own_encryption_is_refused_too() -> None:
    adapter = SEALED | {"serde": {"type": "aesgcm"}}

    with pytest.raises(UnsealedAdapterError):
        require_sealed(["--l2-adapter", json.dumps(adapter)])


def test_only_sealed_adapters_ask_for_a_key() -> None:
    assert require_sealed(["--l2-adapter", json.dumps(SEALED)])
    assert not require_sealed(["--l1-size-gb", "1"])
    assert not require_sealed(["--l2-adapter", '{"type": "mock"}'])


def test_an_identity_survives_the_wire_among_foreign_entries() -> None:
    identity = TierIdentity(boot="ab12", instances=frozenset({7, 2**62}))

    assert TierIdentity.from_entries(["qstore", *identity.to_entries()]) == identity


def test_a_restarted_server_or_one_that_dropped_the_engine_does_not_know_it() -> None:
    server = TierIdentity(boot="b", instances=frozenset({7}))

    assert server.knows(7, registered_at="b") is True
    assert server.knows(7, registered_at="a") is False
    assert server.knows(8, registered_at="b") is False


def test_a_server_that_is_not_ours_leaves_it_unknown() -> None:
    assert TierIdentity.from_entries([]).knows(7, registered_at=None) is None


@pytest.mark.parametrize("form", ["apart", "joined"])
def test_a_disk_that_isnt_there_is_left_out_and_the_rest_starts(tmp_path: Path, form: str) -> None:
    (tmp_path / "file").touch()
    gone = json.dumps(SEALED | {"base_path": str(tmp_path / "file" / "kv")})
    there = json.dumps(SEALED | {"base_path": str(tmp_path / "kv")})
    left_out = ["--l2-adapter", gone] if form == "apart" else [f"--l2-adapter={gone}"]

    kept, missing = without_missing_folders(
        ["--port", "1", *left_out, "--l2-adapter", there, "--no-l1-use-lazy", "--l2-adapter=[1]"]
    )

    assert kept[:5] == ["--port", "1", "--l2-adapter", there, "--no-l1-use-lazy"]
    assert kept[5:] == ["--l2-adapter", "[1]"]
    assert list(missing) == ["fs_native"]
    assert "file/kv can't be used" in missing["fs_native"]
    assert (tmp_path / "kv").is_dir()
