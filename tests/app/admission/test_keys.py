"""Keys: made once, recognised everywhere, rotated, revoked, expired; never kept in clear."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.admission.audit import read_audit
from app.admission.authentication import authenticate
from app.admission.keyring import KeyRing
from app.admission.keys import KeyStatus, NewKey
from app.admission.store import OPERATOR, AdmissionStore
from app.callers import LOCAL_TENANT, Priority, Role, TenantLimits
from app.errors import AuthenticationError, KeyNotFoundError, KeyRefusedError
from tests.app.admission.conftest import SECRET


def ring(store: AdmissionStore, *, open_without_keys: bool = True, ahead_s: float = 0) -> KeyRing:
    made = KeyRing(
        store,
        open_without_keys=open_without_keys,
        defaults=TenantLimits(requests_per_min=7),
        now=lambda: time.time() + ahead_s,
    )
    made.refresh()
    return made


def bearer(key: str) -> bytes:
    return f"Bearer {key}".encode()


def admin(store: AdmissionStore) -> str:
    return store.create(NewKey(tenant="ops", role=Role.ADMIN), by=OPERATOR).key


def test_without_any_key_requests_on_loopback_are_the_operators(store: AdmissionStore) -> None:
    caller = ring(store).authenticate(b"Bearer whatever the SDK wants")
    assert (caller.tenant, caller.role, caller.key_id) == (LOCAL_TENANT, Role.ADMIN, None)
    with pytest.raises(AuthenticationError):
        ring(store, open_without_keys=False).authenticate(None)


def test_the_first_key_is_an_admins_and_ends_that(store: AdmissionStore) -> None:
    with pytest.raises(KeyRefusedError, match="first key must have the role admin"):
        store.create(NewKey(tenant="acme"), by=OPERATOR)
    keys = ring(store)
    key = admin(store)
    keys.refresh()
    with pytest.raises(AuthenticationError, match="no API key"):
        keys.authenticate(None)
    assert keys.authenticate(bearer(key)).is_admin
    store.revoke(store.all_keys()[0].id, by=OPERATOR, last_admin=True)
    keys.refresh()
    with pytest.raises(AuthenticationError, match="revoked"):
        keys.authenticate(bearer(key))
    assert not keys.is_open


def test_a_key_brings_its_tenant_role_ceiling_and_limits(store: AdmissionStore) -> None:
    admin(store)
    new = NewKey(tenant="acme", name="ci", priority=Priority.BACKGROUND)
    key = store.create(new, by=OPERATOR).key
    store.set_limits("acme", TenantLimits(concurrent=3, weight=2.5), by=OPERATOR)
    caller = ring(store).authenticate(bearer(key))
    assert (caller.tenant, caller.role) == ("acme", Role.USER)
    assert caller.ceiling is Priority.BACKGROUND
    assert caller.limits == TenantLimits(concurrent=3, weight=2.5)
    store.drop_limits("acme", by=OPERATOR)
    assert ring(store).authenticate(bearer(key)).limits == TenantLimits(requests_per_min=7)


def test_a_rotated_key_holds_for_its_grace_and_no_longer(store: AdmissionStore) -> None:
    admin(store)
    old = store.create(NewKey(tenant="acme", expires_s=86_400), by=OPERATOR)
    new = store.rotate(old.record.id, grace_s=60, by=OPERATOR)
    assert new.record.expires_at is not None
    assert new.record.expires_at - new.record.created_at == timedelta(days=1)
    for ahead_s, holds in ((0, True), (61, False)):
        keys = ring(store, ahead_s=ahead_s)
        assert keys.authenticate(bearer(new.key)).tenant == "acme"
        if holds:
            assert keys.authenticate(bearer(old.key)).tenant == "acme"
        else:
            with pytest.raises(AuthenticationError, match="expired"):
                keys.authenticate(bearer(old.key))
    with pytest.raises(KeyRefusedError, match="rotated already"):
        store.rotate(old.record.id, grace_s=60, by=OPERATOR)
    with pytest.raises(KeyNotFoundError):
        store.rotate("key_none", grace_s=60, by=OPERATOR)


def test_a_change_by_one_gateway_is_seen_by_another(store: AdmissionStore) -> None:
    key, other = admin(store), ring(AdmissionStore(store.database, SECRET))
    assert other.authenticate(bearer(key)).is_admin
    store.revoke(store.all_keys()[0].id, by=OPERATOR, last_admin=True)
    other.refresh()
    with pytest.raises(AuthenticationError):
        other.authenticate(bearer(key))


def test_a_key_that_is_revoked_while_it_is_recognised_is_known_no_longer(
    store: AdmissionStore,
) -> None:
    """What was changed is read in a thread, at any time."""
    admin(store)
    made = store.create(NewKey(tenant="acme"), by=OPERATOR)
    revokes = False

    def now() -> float:
        if revokes:
            store.revoke(made.record.id, by=OPERATOR)
            keys.refresh()
        return time.time()

    keys = KeyRing(store, open_without_keys=True, defaults=TenantLimits(), now=now)
    keys.refresh()
    revokes = True
    scope = {"headers": [(b"authorization", bearer(made.key))], "path": "/v1/chat/completions"}
    caller = authenticate(scope, keys)
    revokes = False
    state = scope["state"]
    assert isinstance(state, dict)
    assert not keys.still_holds(caller, state["keys_as_of"])


def test_keys_are_not_in_the_database_and_another_secret_knows_none(
    store: AdmissionStore, tmp_path: Path
) -> None:
    key = admin(store)
    for part in tmp_path.glob("foreword.db*"):
        assert key.encode() not in part.read_bytes()
        assert key[3:].encode() not in part.read_bytes()
    with pytest.raises(AuthenticationError):
        ring(AdmissionStore(store.database, b"another secret")).authenticate(bearer(key))


def test_what_is_like_a_key_is_none(store: AdmissionStore) -> None:
    key = admin(store)
    keys = ring(store)
    wrong = [key[:-1], key + "A", key.upper(), "fw-", "", "x" * 100_000, key[3:]]
    for each in wrong:
        with pytest.raises(AuthenticationError) as caught:
            keys.authenticate(bearer(each))
        assert key not in str(caught.value)
    for header in (b"Basic " + key.encode(), key.encode(), b"Bearer", b"\xff\xfe"):
        with pytest.raises(AuthenticationError):
            keys.authenticate(header)
    assert keys.authenticate(b"bearer   " + key.encode()).is_admin


@pytest.mark.parametrize("tenant", ["", "other", "a/b", "ä", "a" * 129, "-a", "a\n"])
def test_names_that_no_tenant_may_have(tenant: str) -> None:
    with pytest.raises(KeyRefusedError):
        NewKey(tenant=tenant)


def test_everything_an_operator_does_is_written_down(
    store: AdmissionStore, database: sa.Engine
) -> None:
    admin(store)
    made = store.create(NewKey(tenant="acme", name="ci"), by=OPERATOR)
    store.rotate(made.record.id, grace_s=5, by=OPERATOR)
    store.revoke(made.record.id, by=OPERATOR)
    store.revoke(made.record.id, by=OPERATOR)
    store.set_limits("acme", TenantLimits(concurrent=3), by=OPERATOR)
    with database.connect() as connection:
        entries = read_audit(connection, limit=10)
        older = read_audit(connection, limit=10, before=entries[1].id)
    actions = [entry.action for entry in entries]
    assert actions == ["tenant.limits", "key.revoke", "key.rotate", "key.create", "key.create"]
    assert [entry.id for entry in older] == [entry.id for entry in entries[2:]]
    assert made.key not in str(entries)


def test_when_a_key_was_used_last_is_noted_to_the_minute(store: AdmissionStore) -> None:
    key = admin(store)
    keys = ring(store)
    keys.authenticate(bearer(key))
    assert store.all_keys()[0].last_used_at is None
    store.used({store.all_keys()[0].id: datetime.now(UTC)})
    assert store.all_keys()[0].last_used_at is not None
    assert store.all_keys()[0].status(datetime.now(UTC)) is KeyStatus.ACTIVE


def test_recognising_a_key_costs_a_few_microseconds(store: AdmissionStore) -> None:
    key = bearer(admin(store))
    keys = ring(store)
    best = float("inf")
    for _ in range(5):
        begun = time.thread_time()
        for _ in range(1000):
            keys.authenticate(key)
        best = min(best, (time.thread_time() - begun) / 1000)
    assert best < 150e-6


def test_the_last_admins_key_is_revoked_only_where_that_is_said(store: AdmissionStore) -> None:
    """Nobody locks himself out by one command that doesn't say so."""
    last = store.create(NewKey(tenant="ops", role=Role.ADMIN), by=OPERATOR).record.id
    user = store.create(NewKey(tenant="acme"), by=OPERATOR).record.id
    with pytest.raises(KeyRefusedError, match="last admin's key that holds"):
        store.revoke(last, by=OPERATOR)
    assert store.key(last).revoked_at is None
    store.revoke(user, by=OPERATOR)
    second = store.create(NewKey(tenant="ops", role=Role.ADMIN), by=OPERATOR).record.id
    store.revoke(last, by=OPERATOR)
    store.revoke(last, by=OPERATOR)  # twice does no harm
    rotated = store.rotate(second, grace_s=3600, by=OPERATOR).record.id
    with pytest.raises(KeyRefusedError):  # the old one ends within the hour
        store.revoke(rotated, by=OPERATOR)
    store.revoke(second, by=OPERATOR)
    assert store.revoke(rotated, by=OPERATOR, last_admin=True).revoked_at is not None


def test_keys_of_a_tenant_that_hold_are_counted(store: AdmissionStore) -> None:
    admin(store)
    made = [store.create(NewKey(tenant="acme"), by=OPERATOR) for _ in range(3)]
    store.revoke(made[0].record.id, by=OPERATOR)
    store.rotate(made[1].record.id, grace_s=0, by=OPERATOR)
    keys = ring(store)
    assert (keys.count_of("acme"), keys.count_of("nobody")) == (2, 0)
