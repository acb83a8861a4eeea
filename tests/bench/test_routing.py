"""The routing benchmark's parts: caches, views, the peer's model, the clock, and its pages."""

import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.routing import LeastTtft, RoundRobin
from bench.errors import TraceError
from bench.routing import gateways, tables
from bench.routing.block_cache import BlockCache
from bench.routing.fleet import new_fleet
from bench.routing.live import TOKENS_A_BLOCK, prompt_text
from bench.routing.real_page import real_page
from bench.routing.routers import CacheAware, ForewordRouter
from bench.routing.sessions import Sizes, agent_loops, reader_loops
from bench.routing.simulate import Restart, freely_moved, pooled, replay
from bench.routing.traces import BLOCK_TOKENS, Arrival, read_trace, stretched
from bench.routing.views import EventView, NotesView, SentView
from bench.routing.workloads import one_scaffold

SPEED = 10_000.0


def arrival(at_s: float, *blocks: int, output_tokens: int = 0) -> Arrival:
    """A request of whole blocks."""
    return Arrival(
        at_s=at_s, tokens=len(blocks) * BLOCK_TOKENS, output_tokens=output_tokens, blocks=blocks
    )


def conversations(turns: int, *, users: int) -> list[Arrival]:
    """Users who each add two blocks a turn to what they share with nobody but block 0."""
    arrivals, histories = [], [[0] for _ in range(users)]
    for turn in range(turns):
        for user, history in enumerate(histories):
            history += [1000 * user + 2 * turn + 1, 1000 * user + 2 * turn + 2]
            arrivals.append(arrival(float(turn * 30 + user), *history))
    return arrivals


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), max_size=40), st.integers(1, 9)
)
def test_cache_holds_no_block_without_those_before_it(
    paths: list[list[int]], capacity: int
) -> None:
    """A block's id is its whole path; whatever is used and evicted, holders hold whole paths."""
    cache, held = BlockCache(capacity), set[int]()
    for path in paths:
        blocks = [int("1" + "".join(map(str, path[: n + 1]))) for n in range(len(path))]
        held |= set(blocks)
        held -= set(cache.use(blocks))
        assert len(cache) == len(held) <= capacity
        assert all(block < 20 or block // 10 in held for block in held)
        assert cache.held(blocks) == sum(block in held for block in blocks)


def test_a_replica_computes_one_prompt_after_the_other() -> None:
    """What is held isn't computed, but for the last token; the second waits for the first."""
    [replica] = new_fleet(1, capacity=10, prefill_tokens_per_s=1024)
    first = replica.serve(arrival(0.0, 1, 2))
    second = replica.serve(arrival(0.5, 1, 2, 3))
    assert (first.hit_tokens, first.first_token_at_s) == (0, 1.0)
    assert (second.hit_tokens, second.first_token_at_s) == (1024, 1.5)
    assert replica.waiting_tokens(1.25) == 256
    assert [replica.in_flight(at_s) for at_s in (0.9, 1.2, 1.6)] == [2, 1, 0]
    assert replica.serve(arrival(9.0, 1, 2)).computed_tokens == 1


def test_events_tell_what_others_sent_and_what_was_evicted() -> None:
    """What a gateway sent itself is known at once, the rest when its events have come."""
    [replica], view = new_fleet(1, capacity=2, prefill_tokens_per_s=512), EventView(1, lag_s=1.0)
    theirs = arrival(0.0, 1, 2)
    view.served(0, theirs, replica.serve(theirs))
    assert (view.held(0, (1, 2), 2.9), view.held(0, (1, 2), 3.0)) == (0, 2)
    ours = arrival(3.0, 5, 6)
    view.sent(0, ours)
    view.served(0, ours, replica.serve(ours))
    assert (view.held(0, (5, 6), 3.0), view.held(0, (1, 2), 3.0)) == (2, 2)
    assert view.held(0, (1, 2), 6.0) == 0


def test_lost_events_leave_a_view_as_it_was() -> None:
    """A gateway that misses all events still knows what it sent."""
    [replica], view = new_fleet(1, capacity=9, prefill_tokens_per_s=512), EventView(1, lost=1.0)
    theirs = arrival(0.0, 1, 2)
    view.served(0, theirs, replica.serve(theirs))
    view.sent(0, arrival(0.0, 7))
    assert (view.held(0, (1, 2), 99.0), view.held(0, (7,), 0.0)) == (0, 1)


def test_peer_follows_the_deepest_match_until_loads_differ() -> None:
    """Above the threshold: where the prefix was last sent. Imbalanced: the fewest in flight."""
    fleet = new_fleet(2, capacity=99, prefill_tokens_per_s=1e9)
    peer = CacheAware(abs_threshold=2)
    for number in range(3):
        busy = arrival(0.0, 1, 2, 10 + number, output_tokens=10**6)
        assert peer.route(busy, fleet) == 0
        fleet[0].serve(busy)
    assert peer.route(arrival(1.0, 1, 2, 20), fleet) == 1, "three in flight against none"
    assert CacheAware().route(arrival(1.0, 1, 2), fleet) == 1, "nothing matches: the fewest"


def test_affinity_beats_turns_and_nearly_reaches_the_pooled_cache() -> None:
    """Small conversations: what the real traces show must already be seen here."""
    arrivals = conversations(12, users=21)

    def run(policy: Any) -> float:
        fleet = new_fleet(4, capacity=400, prefill_tokens_per_s=SPEED)
        router = ForewordRouter(policy, EventView(4), 4)
        return replay(arrivals, fleet, [router]).whole.hit_rate

    best = pooled(arrivals, capacity=1600)[0]
    assert run(LeastTtft()) >= 0.97 * best
    assert run(RoundRobin()) < 0.97 * best


def test_second_half_is_scored_apart() -> None:
    """What is held from the first half counts for the second."""
    arrivals = [arrival(float(60 * n), 1, 2) for n in range(10)]
    fleet = new_fleet(1, capacity=9, prefill_tokens_per_s=SPEED)
    halves = replay(arrivals, fleet, [ForewordRouter(LeastTtft(), EventView(1), 1)])
    assert halves.whole.hit_rate == pytest.approx(0.9 * 1023 / 1024)
    assert halves.second.hit_rate == pytest.approx(1023 / 1024)
    assert pooled(arrivals, capacity=9) == (halves.whole.hit_rate, halves.second.hit_rate)


def test_a_noticed_restart_is_forgotten_by_the_view() -> None:
    """A gateway that noticed it goes back to what is true; one that didn't believes the old."""
    arrivals = conversations(6, users=4)
    for noticed, held in ((True, 0), (False, 1)):
        view = SentView(2, believed_capacity=1000)
        fleet = new_fleet(2, capacity=1000, prefill_tokens_per_s=SPEED)
        last = arrivals[-1].at_s
        for replica in (0, 1):
            view.sent(replica, arrival(0.0, 77))
        replay(
            arrivals,
            fleet,
            [ForewordRouter(LeastTtft(), view, 2)],
            restart=Restart(at_s=last, replica=0, noticed=noticed),
        )
        assert view.held(0, (77,), last) == held


def test_notes_tell_what_others_sent_unless_redis_is_away() -> None:
    """A moment later; with them two gateways find what one would."""
    [replica] = new_fleet(1, capacity=10, prefill_tokens_per_s=SPEED)
    view = NotesView(1, believed_capacity=10, lag_s=0.5, away_s=(5.0, 6.0))
    for at_s, block in ((1.0, 1), (5.0, 2)):
        theirs = arrival(at_s, block)
        view.served(0, theirs, replica.serve(theirs))
    assert [view.held(0, (1,), at_s) for at_s in (1.4, 1.5)] == [0, 1]
    assert view.held(0, (2,), 9.0) == 0

    def hit_rate(views: list[SentView]) -> float:
        fleet = new_fleet(3, capacity=1000, prefill_tokens_per_s=SPEED)
        routers = [ForewordRouter(LeastTtft(), each, 3) for each in views]
        return replay(conversations(9, users=5), fleet, routers).second.hit_rate

    alone = hit_rate([SentView(3, believed_capacity=1000)])
    told = hit_rate([NotesView(3, believed_capacity=1000) for _ in range(2)])
    assert told >= 0.95 * alone


def test_page_of_gateways_marks_what_loses_too_much() -> None:
    def row(name: str, lost: float) -> dict[str, Any]:
        figures = {"hit_rate": 0.3, "imbalance": 1.2, "ttft_mean_s": 1.0, "ttft_p99_s": 4.0}
        return {"trace": "t", "gateways": name, "lost_share": lost, "failed": 0} | {
            "requests": 9
        } | figures  # fmt: skip

    page = gateways.page(
        {
            "options": {"requests": 9, "speedup": 6, "num_replicas": 4},
            "measured": {"live": [row("two", 0.051)], "simulated": [row("four", -0.01)]},
            "environment": {"commit": "x", "python": "3", "cores": 2, "load_average": [0.1]},
        }
    )
    assert "| t | two | 0.3000 | +5.1% **!** | 1.20 | 1.00 | 4.00 | 0 of 9 |" in page
    assert "| t | four | 0.3000 | -1.0% | 1.20 | 1.00 | 4.00 |" in page


def test_one_scaffold_is_held_where_it_is_needed() -> None:
    """All share a scaffold; one replica couldn't serve them, and none gets most of them."""
    arrivals = one_scaffold(requests=3000, per_s=12.0)
    fleet = new_fleet(2, capacity=3200, prefill_tokens_per_s=SPEED)
    outcome = replay(arrivals, fleet, [ForewordRouter(LeastTtft(), EventView(2), 2)]).second
    assert all(replica.cache.held(arrivals[0].blocks[:8]) == 8 for replica in fleet)
    assert outcome.imbalance <= 1.3
    assert outcome.hit_rate >= 0.99 * pooled(arrivals, capacity=6400)[1]


def test_bound_has_the_pooled_hits_and_the_shortest_wait() -> None:
    """Whatever a router knows, KV that is everywhere is at least as good."""
    arrivals = conversations(8, users=12)
    fleet = new_fleet(2, capacity=200, prefill_tokens_per_s=SPEED)
    mine = replay(arrivals, fleet, [ForewordRouter(LeastTtft(), EventView(2), 2)])
    bound = freely_moved(arrivals, 2, capacity=400, prefill_tokens_per_s=SPEED)
    assert (bound.whole.hit_rate, bound.second.hit_rate) == pooled(arrivals, capacity=400)
    assert bound.whole.ttft_mean_s <= mine.whole.ttft_mean_s


def test_sessions_are_the_same_for_every_router() -> None:
    """An agent's prompts each begin with the one before; all questions are asked once."""
    sizes = Sizes(agents=3, turns=4, documents=3, questions=2, readers=2)
    agents, readers = agent_loops(sizes, 1), reader_loops(sizes, 1)
    assert agents == agent_loops(sizes, 1)
    assert agents != agent_loops(sizes, 2)
    assert [len(loop) for loop in agents] == [4, 4, 4]
    assert all(new[: len(old)] == old for loop in agents for old, new in pairwise(loop))
    openings = {loop[0][0]["content"][: sizes.shared] for loop in agents}
    assert len(openings) == 1
    asked = [messages[0]["content"] for loop in readers for messages in loop]
    assert len(set(asked)) == 6
    assert len({text[: sizes.document] for text in asked}) == 3


def test_page_of_real_engines_has_medians_and_every_round() -> None:
    """From the JSON alone."""
    outcome = {
        "router": "one",
        "requests": 10,
        "failed": 1,
        "prompt_tokens": 1000,
        "computed_tokens": 400,
        "imbalance": 1.1,
        "ttft_mean_s": 0.5,
        "ttft_p50_s": 0.4,
        "ttft_p95_s": 1.0,
        "total_s": 9.0,
    }
    options = {"replicas": 2, "pool_tokens": 9, "model": "tiny"} | asdict(Sizes())
    page = real_page(
        {
            "options": options,
            "measured": [
                outcome | {"round": n, "hit_rate": rate} for n, rate in ((1, 0.5), (2, 0.7))
            ],
            "environment": {"commit": "x", "python": "3", "cores": 2, "load_average": [0.1]},
        }
    )
    assert "| one | 60.0% | 400 | 1.10 | 0.50 | 0.40 | 1.00 | 9 | 2 of 20 |" in page
    assert "| 2 | one | 70.0% |" in page


def test_traces_are_read_and_stretched(tmp_path: Path) -> None:
    """Mooncake's rows, in milliseconds; another row is named."""
    row = {"timestamp": 1500, "input_length": 600, "output_length": 7, "hash_ids": [4, 9]}
    file = tmp_path / "trace.jsonl"
    file.write_text(json.dumps(row) + "\n")
    [read] = read_trace(file)
    assert read == Arrival(at_s=1.5, tokens=600, output_tokens=7, blocks=(4, 9))
    assert stretched([read], 2)[0].at_s == 3.0
    file.write_text('{"timestamp": 1}\n')
    with pytest.raises(TraceError, match="line 1"):
        read_trace(file)


def test_equal_blocks_are_equal_text() -> None:
    """The live prompt keeps what two requests share, and the length of the last block."""
    first = Arrival(at_s=0, tokens=1024 + 256, output_tokens=1, blocks=(1, 2, 3))
    other = Arrival(at_s=0, tokens=1024, output_tokens=1, blocks=(1, 2))
    assert prompt_text(first).startswith(prompt_text(other))
    assert len(prompt_text(first)) == 2.5 * TOKENS_A_BLOCK


def test_page_says_how_many_cells_meet_the_goals() -> None:
    """From the JSON alone; what misses is to be seen."""

    def row(router: str, hit_rate: float, ttft_s: float) -> dict[str, Any]:
        part = {
            "hit_rate": hit_rate,
            "imbalance": 1.5,
            "ttft_mean_s": ttft_s,
            "ttft_p50_s": ttft_s,
            "ttft_p99_s": ttft_s,
            "pooled": 0.5,
            "infinite": 0.6,
        }
        cell = {"trace": "synthetic", "replicas": 2, "capacity_blocks": 800, "router": router}
        return cell | {"all": part, "second_half": part}

    lost = {"trace": "synthetic", "knowledge": "half", "lost_share": 0.06} | {
        "hit_rate": 0.4,
        "imbalance": 1.0,
        "ttft_mean_s": 1.0,
    }
    page = tables.simulation_page(
        {
            "measured": {
                "grid": [row(tables.OURS, 0.48, 0.8), row(tables.PEER, 0.47, 1.0)],
                "robustness": [lost],
                "shared_scaffold": [],
            },
            "environment": {"commit": "x", "python": "3", "cores": 2, "load_average": [0.1]},
        }
    )
    assert "| synthetic | all | ≥ 0.99 in 0 of 1; worst 0.960 | ≤ 1.9 in 1 of 1" in page
    assert "+6.0% **!**" in page
