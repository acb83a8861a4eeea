"""Routing policies: who is chosen, in which order the others follow, and what is said of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.routing import (
    Candidate,
    ConsistentHash,
    LeastLoaded,
    LeastTtft,
    ReplicaLoad,
    RoundRobin,
    RouteRequest,
    RoutingPolicy,
    open_policy,
)
from app.routing.sent import Prompts
from app.settings import RoutingSettings

SPEED = 10_000.0
POLICIES = (LeastTtft, LeastLoaded, ConsistentHash, RoundRobin)


def replica(name: str, *, held: int = 0, waiting: int | None = 0, **fields: object) -> Candidate:
    """A candidate whose speed is known."""
    load = {"waiting_uncached_tokens": waiting, "prefill_tokens_per_s": SPEED} | fields
    other = {
        key: load.pop(key) for key in ("tier_tokens", "tier_load_s", "in_flight") if key in load
    }
    return Candidate(name=name, held_tokens=held, load=ReplicaLoad(**load), **other)  # type: ignore[arg-type]


def chosen(policy: RoutingPolicy, tokens: int, *candidates: Candidate, **fields: object) -> str:
    """The name of the replica that a policy takes."""
    request = RouteRequest(tokens=tokens, **fields)  # type: ignore[arg-type]
    return policy.choose(request, candidates).replica


loads = st.builds(
    ReplicaLoad,
    waiting_uncached_tokens=st.none() | st.integers(0, 10**7),
    unseen_tokens=st.integers(0, 10**6),
    running=st.none() | st.integers(0, 1000),
    waiting=st.none() | st.integers(0, 1000),
    pool_used=st.none() | st.floats(0, 1),
    prefill_tokens_per_s=st.none() | st.floats(1, 1e6),
)
fleets = st.lists(
    st.builds(
        Candidate,
        name=st.text("abc-:0123", min_size=1, max_size=6),
        load=loads,
        held_tokens=st.integers(0, 10**5),
        tier_tokens=st.integers(0, 10**5),
        tier_load_s=st.none() | st.floats(0, 1e-2),
        in_flight=st.integers(0, 1000),
    ),
    min_size=1,
    max_size=16,
    unique_by=lambda candidate: candidate.name,
)
requests = st.builds(
    RouteRequest,
    tokens=st.integers(1, 10**5),
    affinity=st.binary(max_size=32),
    deadline_s=st.none() | st.floats(0, 100),
    at_s=st.floats(0, 1e9),
)


@pytest.mark.parametrize("make", POLICIES)
@settings(max_examples=50)
@given(fleet=fleets, request_=requests)
def test_order_names_every_candidate_once_the_chosen_first(
    make: type[RoutingPolicy], fleet: list[Candidate], request_: RouteRequest
) -> None:
    """Whatever is known or not: one is chosen, and all others follow it."""
    route = make().choose(request_, fleet)
    assert route.order[0] == route.replica
    assert sorted(route.order) == sorted(candidate.name for candidate in fleet)
    assert route.reason


@pytest.mark.parametrize("make", POLICIES)
def test_no_candidates_is_a_fault_of_the_caller(make: type[RoutingPolicy]) -> None:
    """A policy never answers with a replica that isn't there."""
    with pytest.raises(ValueError, match="no replica"):
        make().choose(RouteRequest(tokens=1), [])


def test_holder_of_the_prefix_is_preferred() -> None:
    """With nothing else to tell them apart, what is held decides."""
    assert chosen(LeastTtft(), 5000, replica("a"), replica("b", held=4096)) == "b"


def test_a_long_queue_outweighs_what_is_held() -> None:
    """Affinity ends where the wait, at its weight, costs more than computing the prompt anew."""
    policy = LeastTtft(load_weight=0.25, spread_weight=0)
    near, far = 4 * 4000 - 500, 4 * 4000 + 500
    assert chosen(policy, 5000, replica("a"), replica("b", held=4000, waiting=near)) == "b"
    assert chosen(policy, 5000, replica("a"), replica("b", held=4000, waiting=far)) == "a"


def test_unseen_requests_count_like_those_that_wait() -> None:
    """Between two looks at the engine's load, the gateway counts what it sent itself."""
    busy = replica("a", held=512, unseen_tokens=50_000)
    assert chosen(LeastTtft(), 1000, busy, replica("b")) == "b"


def test_tiers_are_worth_what_they_save() -> None:
    """What the tiers load faster than the engine computes makes a replica cheaper, else dearer."""
    fast = replica("a", tier_tokens=8000, tier_load_s=0.1 / SPEED)
    slow = replica("a", tier_tokens=8000, tier_load_s=3 / SPEED)
    policy = LeastTtft(spread_weight=0)
    assert chosen(policy, 8192, fast, replica("b", held=4096)) == "a"
    assert chosen(policy, 8192, slow, replica("b")) == "b"


def test_a_full_pool_is_avoided() -> None:
    """Running requests that hold the whole pool must end before a new one has room."""
    full = replica("a", held=4096, pool_used=1.0)
    assert chosen(LeastTtft(), 4200, full, replica("b")) == "b"
    assert chosen(LeastTtft(), 4200, replica("a", held=4096, pool_used=0.89), replica("b")) == "a"


def test_running_decodes_break_a_tie() -> None:
    """Of two that hold the same, the one that decodes for fewer."""
    assert chosen(LeastTtft(), 100, replica("a", running=60), replica("b", running=2)) == "b"


def test_deadline_goes_before_cost() -> None:
    """The cheapest in time; where none is in time, the soonest."""
    holder = replica("a", held=50_000, waiting=100_000)
    policy = LeastTtft()
    free, request = replica("b"), RouteRequest(tokens=60_000, deadline_s=8.0)
    route = policy.choose(request, [holder, free])
    assert (route.replica, route.estimated_ttft_s) == ("b", 6.0)
    assert "a would miss the deadline of 8.00 s" in route.reason
    late = policy.choose(RouteRequest(tokens=60_000, deadline_s=1.0), [holder, free])
    assert late.replica == "b"
    assert "none meets the deadline" in late.reason


def test_without_speeds_nothing_is_estimated() -> None:
    """A fleet that has computed nothing yet is routed by tokens alone, and no time is claimed."""
    candidates = [
        Candidate(name="a", load=ReplicaLoad()),
        Candidate(name="b", load=ReplicaLoad(), held_tokens=512),
    ]
    route = LeastTtft().choose(RouteRequest(tokens=1000, deadline_s=0.1), candidates)
    assert (route.replica, route.estimated_ttft_s) == ("b", None)
    assert route.reason == "holds 512 of 1,000 tokens"


def test_an_unknown_speed_is_the_others_median() -> None:
    """A replica that has just come isn't taken for infinitely slow or fast."""
    new = Candidate(name="new", load=ReplicaLoad())
    route = LeastTtft().choose(RouteRequest(tokens=10_000), [new, replica("a", waiting=50_000)])
    assert (route.replica, route.estimated_ttft_s) == ("new", 1.0)


def test_reason_has_the_figures_that_decided() -> None:
    """Who holds more but has too much to do is named."""
    route = LeastTtft().choose(
        RouteRequest(tokens=5000), [replica("a"), replica("b", held=4096, waiting=90_000)]
    )
    assert route.reason == (
        "holds 0 of 5,000 tokens; 0.50 s to the first token (0.00 waiting, 0.50 of its own); "
        "b holds 4,096 but 9.00 s wait there"
    )


def test_new_prompts_are_spread_over_idle_replicas() -> None:
    """Idle replicas get equal work, so that their caches are renewed as fast."""
    policy, sent = LeastTtft(), dict.fromkeys("abcd", 0)
    for number in range(400):
        name = chosen(policy, 1000, *(replica(n) for n in sent), affinity=number.to_bytes(8, "big"))
        sent[name] += 1
    assert max(sent.values()) - min(sent.values()) <= 4


def test_gateways_agree_where_nothing_tells_replicas_apart() -> None:
    """A tie is settled by the opening: alike in each gateway, in whatever order it lists them."""
    for number in range(50):
        affinity = number.to_bytes(8, "big")
        names = [
            chosen(LeastTtft(), 1000, *map(replica, order), affinity=affinity)
            for order in ("abcd", "dcba")
        ]
        assert names[0] == names[1]


def test_a_hot_prefix_is_replicated_when_its_holder_is_busy() -> None:
    """All requests share a scaffold: under load it comes to be held everywhere, evenly used."""
    policy = LeastTtft()
    held, waiting, sent = (
        dict.fromkeys("abcd", 0),
        dict.fromkeys("abcd", 0),
        dict.fromkeys("abcd", 0),
    )
    for number in range(2000):
        name = chosen(policy, 4596, *(replica(n, held=held[n], waiting=waiting[n]) for n in held))
        waiting[name] += 4596 - held[name]
        held[name] = 4096
        # The second half counts: the scaffold must first come to be everywhere.
        sent[name] += number >= 1000
        # Together they compute a little more than what comes.
        waiting = {n: max(0, tokens - 150) for n, tokens in waiting.items()}
    assert all(tokens == 4096 for tokens in held.values())
    assert max(sent.values()) / (1000 / 4) <= 1.3


def test_round_robin_takes_turns_and_survives_a_leaving() -> None:
    """Each in turn by name; who leaves is passed over."""
    policy = RoundRobin()
    abc = [replica(name) for name in "bca"]
    assert [chosen(policy, 1, *abc) for _ in range(4)] == ["a", "b", "c", "a"]
    assert chosen(policy, 1, replica("a"), replica("c")) == "c"


def test_least_loaded_looks_at_tokens_then_requests() -> None:
    """Tokens to compute first; of equals the fewest requests."""
    policy = LeastLoaded()
    assert chosen(policy, 1, replica("a", waiting=10), replica("b", waiting=9)) == "b"
    assert chosen(policy, 1, replica("a", in_flight=2), replica("b", in_flight=1)) == "b"
    assert chosen(policy, 1, replica("a", running=2, waiting=None), replica("b")) == "b"


def test_consistent_hash_moves_little_when_a_replica_comes() -> None:
    """Of 1,000 openings about a fifth go to the fifth replica, and no other moves."""
    openings = [number.to_bytes(8, "big") for number in range(1000)]
    policy = ConsistentHash(bound=1000)

    def homes(names: str) -> list[str]:
        return [chosen(policy, 1, *map(replica, names), affinity=opening) for opening in openings]

    moved = [
        after
        for before, after in zip(homes("abcd"), homes("abcde"), strict=True)
        if before != after
    ]
    assert set(moved) == {"e"}
    assert 140 <= len(moved) <= 260


def test_consistent_hash_is_bounded() -> None:
    """However hot an opening is, no replica has more than the bound allows."""
    policy, flying = ConsistentHash(bound=1.25), dict.fromkeys("abcd", 0)
    for _ in range(400):
        name = chosen(
            policy, 1, *(replica(n, in_flight=flying[n]) for n in flying), affinity=b"hot"
        )
        flying[name] += 1
    assert max(flying.values()) <= 126


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("least-ttft", LeastTtft),
        ("least-loaded", LeastLoaded),
        ("consistent-hash", ConsistentHash),
        ("round-robin", RoundRobin),
    ],
)
def test_settings_name_the_policy(name: str, kind: type[RoutingPolicy]) -> None:
    """Each name of the setting opens its policy."""
    assert isinstance(open_policy(RoutingSettings(policy=name)), kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: LeastTtft(load_weight=0), "load_weight is 0"),
        (lambda: LeastTtft(spread_weight=-1), "spread_weight is -1"),
        (lambda: LeastTtft(pool_full=1.0), "pool_full is 1.0"),
        (lambda: ConsistentHash(bound=0.9), "bound is 0.9"),
    ],
)
def test_weights_out_of_range_are_refused(make: "object", problem: str) -> None:
    """Said at the start, with the figure."""
    assert callable(make)
    with pytest.raises(ValueError, match=problem):
        make()


def shares(policy: LeastTtft, *, every_s: float, requests: int = 400) -> float:
    """Of prompts that only `a` holds, how many it gets; the queues are empty all the time."""
    names = [
        chosen(
            policy,
            10_100,
            replica("a", held=10_000),
            replica("b"),
            replica("c"),
            at_s=number * every_s,
        )
        for number in range(requests)
    ]
    return names.count("a") / requests


def test_who_gets_more_than_its_share_gets_dearer() -> None:
    """No queue says so, since hardly anything has to be computed."""
    assert shares(LeastTtft(balance_weight=0, spread_weight=0), every_s=0.1) == 1
    # Twice its share of three is two thirds, and would cost as much as computing it elsewhere.
    assert 0.5 < shares(LeastTtft(spread_weight=0), every_s=0.1) < 0.75


def test_shares_are_no_matter_while_there_is_little_to_do() -> None:
    """One conversation stays where it is, whoever else is idle."""
    assert shares(LeastTtft(spread_weight=0), every_s=30.0) == 1


def test_before_any_speed_is_known_a_burst_is_spread_and_a_lone_user_is_not() -> None:
    """Agents with one scaffold who all begin at once; and one conversation, turn by turn."""
    policy, in_flight = LeastTtft(), {"a": 0, "b": 0}
    for _ in range(6):
        held = {name: 400 if count else 0 for name, count in in_flight.items()}
        fleet = [
            Candidate(
                name=name,
                load=ReplicaLoad(unseen_tokens=500 * count),
                held_tokens=held[name],
                in_flight=count,
            )
            for name, count in in_flight.items()
        ]
        in_flight[policy.choose(RouteRequest(tokens=900), fleet).replica] += 1
    assert in_flight == {"a": 3, "b": 3}
    policy, tokens = LeastTtft(), 1000
    for turn in range(20):
        fleet = [
            Candidate(name="a", load=ReplicaLoad(), held_tokens=tokens - 200),
            Candidate(name="b", load=ReplicaLoad()),
        ]
        request = RouteRequest(tokens=tokens, at_s=10.0 * turn)
        assert policy.choose(request, fleet).replica == "a"
        tokens += 200


def test_a_replica_twice_as_fast_may_get_twice_as_much() -> None:
    """Shares are of time."""
    policy, fast, slow = LeastTtft(), 20_000.0, 10_000.0
    names = [
        chosen(
            policy,
            5000,
            replica("a", prefill_tokens_per_s=fast),
            replica("b", prefill_tokens_per_s=slow),
            at_s=number * 0.2,
        )
        for number in range(300)
    ]
    assert 0.6 < names.count("a") / len(names) < 0.9


def test_what_was_sent_is_forgotten_in_time() -> None:
    """Who had far too much a while ago is as good as the others; who has gone isn't kept."""
    prompts = Prompts()
    for name in ("a", "b"):
        prompts.sent(name, 10_000)
    prompts.passed(60.0)
    assert prompts.tokens("a") == pytest.approx(10_000 / 2.71828, rel=1e-4)
    assert prompts.requests == pytest.approx(2 / 2.71828, rel=1e-4)
    prompts.passed(59.0)  # a clock that goes back changes nothing
    assert prompts.total(("a", "b")) == pytest.approx(20_000 / 2.71828, rel=1e-4)
    prompts.passed(5000.0)
    prompts.passed(5001.0)
    assert prompts.total(("a", "b")) == 0
