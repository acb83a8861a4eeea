"""The fleet follows a source of replicas, and respects what operators did."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.books import BookShelf
from app.fleet.addresses import Listening
from app.fleet.fleet import Fleet
from app.fleet.following import Following
from app.fleet.opening import open_fleet
from app.fleet.states import ReplicaState
from app.settings import AccountingSettings
from tests.gateways import gateway_settings

pytestmark = pytest.mark.anyio

A, B, C = "http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.3:1"


class Source:
    """A source whose answer is set by hand."""

    def __init__(self, *urls: str) -> None:
        self.urls = urls
        self.problem: str | None = None

    async def look(self) -> frozenset[str]:
        return frozenset(self.urls)

    async def aclose(self) -> None:
        pass


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet that nobody watches: its replicas are where nobody answers."""
    settings = gateway_settings(tmp_path, A)
    shelf = BookShelf(AccountingSettings(), key=b"key")
    made = open_fleet(settings, shelf)
    yield made
    made.close()


def states(fleet: Fleet) -> dict[str, ReplicaState]:
    return {replica.client.url: replica.state for replica in fleet.replicas}


async def test_what_is_found_is_added_by_host_and_port(fleet: Fleet) -> None:
    await Following(fleet, Source(B, A), every_s=1.0).look()
    assert [replica.name for replica in fleet.replicas] == ["10.0.0.1:1", "10.0.0.2:1"]


async def test_what_is_gone_is_drained_and_the_others_are_left_alone(fleet: Fleet) -> None:
    source = Source(A, B)
    following = Following(fleet, source, every_s=1.0)
    await following.look()
    source.urls = (B, C)
    await following.look()
    assert states(fleet) == {
        A: ReplicaState.DRAINING,
        B: ReplicaState.STARTING,
        C: ReplicaState.STARTING,
    }


async def test_one_that_is_back_before_it_was_gone_goes_on(fleet: Fleet) -> None:
    source = Source(A, B)
    following = Following(fleet, source, every_s=1.0)
    for source.urls in ((A, B), (B,), (A, B)):
        await following.look()
    assert states(fleet) == {A: ReplicaState.STARTING, B: ReplicaState.STARTING}


async def test_what_an_operator_added_is_not_drained(fleet: Fleet) -> None:
    await fleet.add(C)
    source = Source(A)
    following = Following(fleet, source, every_s=1.0)
    for source.urls in ((A,), ()):
        await following.look()
    assert states(fleet) == {C: ReplicaState.STARTING, A: ReplicaState.DRAINING}


async def test_what_an_operator_removed_is_not_brought_back(fleet: Fleet) -> None:
    following = Following(fleet, Source(A, B), every_s=1.0)
    await following.look()
    fleet.remove("10.0.0.1:1")
    await following.look()
    assert set(states(fleet)) == {B}


async def test_what_the_settings_listed_is_not_added_twice(fleet: Fleet) -> None:
    await fleet.add(A, name="engine-0")
    await Following(fleet, Source(A), every_s=1.0).look()
    assert [replica.name for replica in fleet.replicas] == ["engine-0"]


async def test_an_answer_that_is_no_replica_is_told_and_the_rest_is_used(fleet: Fleet) -> None:
    source = Source(A, "http://user@10.0.0.9:1")
    following = Following(fleet, source, every_s=1.0)
    await following.look()
    assert set(states(fleet)) == {A}
    assert "user name or password" in (fleet.source_problem or "")
    source.urls = (A,)
    await following.look()
    assert fleet.source_problem is None


async def test_a_source_in_trouble_is_told(fleet: Fleet) -> None:
    source = Source(A)
    source.problem = "engines can't be looked up: no such name"
    await Following(fleet, source, every_s=1.0).look()
    assert fleet.source_problem == source.problem
    assert "no such name" in (fleet.problem or "")


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ("http://127.0.0.1:8400", "it is this gateway itself"),
        ("http://169.254.169.254:80", "link-local or multicast"),
        ("http://[fe80::1]:30000", "link-local or multicast"),
    ],
)
async def test_what_a_source_may_not_name_is_told_and_not_asked(
    fleet: Fleet, found: str, says: str
) -> None:
    """DNS and Kubernetes say what others wrote there."""
    own = Listening("0.0.0.0", 8400)
    await Following(fleet, Source(A, found), every_s=1.0, own=own).look()
    assert set(states(fleet)) == {A}
    assert says in (fleet.source_problem or "")
