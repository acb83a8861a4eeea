"""Salts are stable, distinct, and never empty; the secret survives and stays private."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import HomeError
from app.salts import Salts, load_or_create_secret

names = st.text(st.characters(exclude_categories=["Cs"]))


@given(one=names, other=names)
def test_two_tenants_never_share_a_salt(one: str, other: str) -> None:
    salts = Salts(b"k" * 32)
    assert (salts.of(one) == salts.of(other)) == (one == other)
    assert len(salts.of(one)) == 32
    assert salts.of(one).isalnum()
    assert Salts(b"j" * 32).of(one) != salts.of(one)


@given(whose=st.lists(st.tuples(names, st.none() | names), min_size=2, max_size=2, unique=True))
def test_collections_have_salts_of_their_own(whose: list[tuple[str, str | None]]) -> None:
    salts = Salts(b"k" * 32)
    (one, its), (other, others) = whose
    assert salts.of(one, its) != salts.of(other, others)


def test_a_new_epoch_changes_all_salts_of_a_tenant_and_of_no_other() -> None:
    salts = Salts(b"k" * 32, {"old": 3})
    assert (salts.epoch("old"), salts.epoch("new")) == (3, 0)
    before = [salts.of("old"), salts.of("old", "vs_1"), salts.of("new")]
    salts.begin_epoch("old", 4)
    after = [salts.of("old"), salts.of("old", "vs_1"), salts.of("new")]
    assert [a == b for a, b in zip(after, before, strict=True)] == [False, False, True]


def test_the_secret_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "hmac.key"
    secret = load_or_create_secret(path)
    assert load_or_create_secret(path) == secret
    assert len(secret) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["hmac.key"]


def test_half_a_secret_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hmac.key"
    path.write_bytes(b"short")
    with pytest.raises(HomeError, match="holds 5"):
        load_or_create_secret(path)
