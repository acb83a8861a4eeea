"""What a replica is said to hold of a prompt, and how much it would have to compute."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from app.engine import EngineClient, EngineInfo
from app.fleet.choosing import Chooser, look_up
from app.parity import Parity
from app.prepared import Prepared
from app.replica import Replica
from app.replica_view import ReplicaView
from app.routing import Candidate, Route, RouteRequest
from app.settings import TiersSettings
from app.tiers import TierSide
from app.upstream import Timeouts, Upstream
from cache.kv_events import BlockRemoved, BlockStored
from cache.prefix_index import PrefixIndex
from prompts import Prompt, TokenizedPrompt

PAGE = 4
IDS = tuple(range(1, 42))  # ten pages and one token more
VIEW = ReplicaView(
    info=EngineInfo(
        model_path="m",
        tokenizer_path="m",
        served_name="m",
        context_tokens=4096,
        page_tokens=PAGE,
        pool_tokens=None,
        cache_report=True,
        tiers=True,
        version="",
    ),
    tokenizer=None,
    parity=Parity(ok=True),
)


class Recorder:
    """Takes the first, and keeps what it was told."""

    def __init__(self) -> None:
        self.request = RouteRequest(tokens=0)
        self.told: dict[str, Candidate] = {}

    def choose(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Route:
        self.request, self.told = request, {each.name: each for each in candidates}
        names = tuple(self.told)
        return Route(replica=names[0], reason="the first", order=names)


def prepared(ids: Sequence[int] = IDS, *, salt: str = "s") -> Prepared:
    rendered = Prompt(template="chat@1", segments=())
    return Prepared(
        request_id="r",
        tenant="local",
        salt=salt,
        model="tiny",
        template="chat@1",
        body={},
        labels={},
        rendered=rendered,
        prompt=TokenizedPrompt(prompt=rendered, token_ids=tuple(ids), ranges=()),
    )


@contextmanager
def replicas(count: int) -> Iterator[list[Replica]]:
    timeouts = Timeouts(connect_s=1, first_byte_s=1, between_bytes_s=1)
    with ExitStack() as stack:
        made = []
        for number in range(count):
            upstream = Upstream("http://127.0.0.1:9", timeouts=timeouts, max_connections=1)
            client = EngineClient(upstream)
            replica = Replica(f"engine-{number}", client, tokenizer_folder=None)
            stack.callback(replica.close)
            made.append(replica)
        yield made


@pytest.fixture
def index() -> PrefixIndex:
    return PrefixIndex(page_tokens=PAGE)


def held(index: PrefixIndex, asked: Prepared, *, count: int = 2) -> dict[str, int]:
    policy = Recorder()
    chooser = Chooser(policy, opening_tokens=8)
    with replicas(count) as made:
        choice = chooser.choose(made, asked, look_up(index, asked))
        assert choice.to_compute(choice.route.replica) == len(IDS) - choice.held["engine-0"]
    return {name: candidate.held_tokens for name, candidate in policy.told.items()}


def test_nothing_is_held_that_nobody_sent(index: PrefixIndex) -> None:
    assert held(index, prepared()) == {"engine-0": 0, "engine-1": 0}


def test_what_a_request_had_is_held_where_it_was(index: PrefixIndex) -> None:
    index.computed(index.keys(IDS), salt="s", replica="engine-1", at=1.0)
    assert held(index, prepared()) == {"engine-0": 0, "engine-1": 40}
    assert held(index, prepared(salt="t")) == {"engine-0": 0, "engine-1": 0}


def test_what_is_being_computed_is_held_too(index: PrefixIndex) -> None:
    index.sent(index.keys(IDS[:20]), salt="s", replica="engine-0", at=1.0)
    assert held(index, prepared()) == {"engine-0": 20, "engine-1": 0}
    index.gave_up(index.keys(IDS[:20]), salt="s", replica="engine-0")
    assert held(index, prepared()) == {"engine-0": 0, "engine-1": 0}


def test_what_events_say_to_be_gone_is_not_held(index: PrefixIndex) -> None:
    names = list(range(10))
    stored = BlockStored(
        block_hashes=names,
        parent_block_hash=None,
        token_ids=array("I", IDS[:40]),
        block_size=PAGE,
        cache_salt="s",
    )
    index.stored("engine-1", stored, at=1.0)
    assert held(index, prepared())["engine-1"] == 40
    index.removed("engine-1", BlockRemoved(block_hashes=names[6:]), at=2.0)
    assert held(index, prepared())["engine-1"] == 24
    index.cleared("engine-1", at=3.0)
    assert held(index, prepared())["engine-1"] == 0


def test_what_was_left_is_believed_where_events_were_lost(index: PrefixIndex) -> None:
    index.computed(index.keys(IDS), salt="s", replica="engine-1", at=1.0)
    index.evidence_lost("engine-1", at=2.0)
    assert held(index, prepared())["engine-1"] == 40
    index.cleared("engine-1", at=3.0)  # it began anew, and its first events are missing
    index.evidence_lost("engine-1", at=3.1)
    assert held(index, prepared())["engine-1"] == 0


@pytest.mark.parametrize("forgotten", [True, False])
def test_what_was_left_before_a_restart_is_not_held(index: PrefixIndex, *, forgotten: bool) -> None:
    index.computed(index.keys(IDS), salt="s", replica="engine-1", at=1.0)
    if forgotten:
        index.forget_replica("engine-1")
    else:
        index.restarted("engine-1", at=2.0)
    assert held(index, prepared()) == {"engine-0": 0, "engine-1": 0}


def test_own_tiers_serve_their_replica_alone_and_shared_ones_all(index: PrefixIndex) -> None:
    settings = TiersSettings(chunk_tokens=8)

    def reach(*tiers: TierSide) -> dict[str, int]:
        policy = Recorder()
        with replicas(2) as made:
            for replica, tier in zip(made, tiers, strict=True):
                replica.tier, replica._view = tier, VIEW
            Chooser(policy, opening_tokens=8).choose(made, prepared(), look_up(index, prepared()))
        return {name: candidate.tier_tokens for name, candidate in policy.told.items()}

    own = [TierSide(f"engine-{number}", None, settings) for number in range(2)]
    shared = TierSide("", None, settings)
    index.tiered(index.keys(IDS), salt="s", at=1.0, tier="engine-1")
    assert reach(*own) == {"engine-0": 0, "engine-1": 40}
    assert reach(shared, shared) == {"engine-0": 0, "engine-1": 0}
    index.tiered(index.keys(IDS[:28]), salt="s", at=1.0)
    assert reach(shared, shared) == {"engine-0": 24, "engine-1": 24}


def test_equal_openings_have_equal_affinities(index: PrefixIndex) -> None:
    def affinity(asked: Prepared) -> bytes:
        policy = Recorder()
        chooser = Chooser(policy, opening_tokens=8)
        with replicas(2) as made:
            chooser.choose(made, asked, look_up(index, asked))
        return policy.request.affinity

    same = affinity(prepared())
    assert affinity(prepared((*IDS[:8], 99))) == same
    assert affinity(prepared((99, *IDS[1:]))) != same
    assert affinity(prepared(salt="t")) != same
