"""The simulated engine's pure core: queue, memory, tier and stated time."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.engine_sim.changes import Namespace
from bench.engine_sim.config import (
    ClockConfig,
    EvictionPolicy,
    SimulatorConfig,
    TierConfig,
)
from bench.engine_sim.language import Language, Speaker
from bench.engine_sim.pool import KvPool
from bench.engine_sim.request import EngineRequest, FinishReason
from bench.engine_sim.scheduler import Scheduler
from bench.engine_sim.tier import Tier
from bench.engine_sim.tokens import ModelText, TextStream
from bench.errors import SimulatorConfigError

CLOCK = ClockConfig(
    prefill_tokens_per_s=1000,
    prefill_overhead_s=0,
    decode_step_s=1,
    tier_lookup_s=0.5,
    tier_tokens_per_s=1000,
)
CONFIG = SimulatorConfig(model_path=Path("unused"), page_size=16, capacity_tokens=4096, clock=CLOCK)
LANGUAGE = Language(words=tuple(range(300, 400)), eos=None, eos_every_tokens=None)


@pytest.fixture(scope="module")
def text(model_path: Path) -> ModelText:
    return ModelText(model_path)


def make_scheduler(config: SimulatorConfig = CONFIG) -> Scheduler:
    return Scheduler(config=config, pool=KvPool(config))


def make_request(
    text: ModelText,
    prompt: Sequence[int],
    *,
    salt: str | None = None,
    new_tokens: int = 2,
    priority: int | None = None,
) -> EngineRequest:
    return EngineRequest(
        rid="r",
        prompt=tuple(prompt),
        namespace=Namespace(salt),
        max_new_tokens=new_tokens,
        speaker=Speaker(LANGUAGE, prompt),
        text=TextStream(text),
        priority=priority,
    )


def drive(scheduler: Scheduler) -> list[EngineRequest]:
    """Run until idle; returns the requests in the order in which they first spoke."""
    order: list[EngineRequest] = []
    while scheduler.busy:
        for request in scheduler.complete(scheduler.begin()):
            if request not in order:
                order.append(request)
    return order


def ask(scheduler: Scheduler, *requests: EngineRequest) -> list[EngineRequest]:
    for request in requests:
        scheduler.add(request)
    return drive(scheduler)


def test_time_is_uncached_prompt_then_one_step_for_each_further_token(text: ModelText) -> None:
    scheduler = make_scheduler()
    ask(scheduler, make_request(text, range(100), new_tokens=3))
    assert scheduler.now_s == pytest.approx(0.1 + 2)
    ask(scheduler, make_request(text, range(100), new_tokens=1))
    assert scheduler.now_s == pytest.approx(0.1 + 2 + (100 - 96) / 1000)


def test_running_requests_share_decode_steps(text: ModelText) -> None:
    scheduler = make_scheduler()
    ask(
        scheduler,
        make_request(text, range(100), new_tokens=5),
        make_request(text, range(500, 600), new_tokens=5),
    )
    assert scheduler.now_s == pytest.approx(0.2 + 4)


def test_first_come_first_served_unless_priorities_count(text: ModelText) -> None:
    requests = [make_request(text, range(n, n + 50), priority=n) for n in (1, 2, 3)]
    alone = replace(CONFIG, max_running_requests=1)
    assert ask(make_scheduler(alone), *requests) == requests
    again = [make_request(text, r.prompt[:1] + r.prompt, priority=r.priority) for r in requests]
    by_priority = replace(alone, priority_scheduling=True)
    assert ask(make_scheduler(by_priority), *again) == again[::-1]


def test_a_long_prompt_is_computed_in_chunks_and_a_short_one_waits(text: ModelText) -> None:
    config = replace(CONFIG, chunked_prefill_tokens=100)
    scheduler = make_scheduler(config)
    long, short = make_request(text, range(250)), make_request(text, range(900, 910))
    scheduler.add(long)
    scheduler.add(short)
    steps = [scheduler.begin()]
    scheduler.complete(steps[-1])
    assert [part for _, part in steps[0].prefills] == [100]
    assert ask(scheduler) == [long, short]


def test_a_full_pool_evicts_the_least_recently_used(text: ModelText) -> None:
    config = replace(CONFIG, capacity_tokens=512)
    scheduler = make_scheduler(config)
    for start in (0, 1000, 2000):
        ask(scheduler, make_request(text, range(start, start + 200)))
    tree = scheduler.pool.tree
    assert tree.peek(Namespace(), range(0, 200)) == 0
    assert tree.peek(Namespace(), range(2000, 2200)) == 192
    assert scheduler.pool.evicted_tokens > 0


def test_a_warmed_prefix_of_high_priority_survives_others(text: ModelText) -> None:
    config = replace(CONFIG, capacity_tokens=512, eviction=EvictionPolicy.PRIORITY)
    scheduler = make_scheduler(config)
    ask(scheduler, make_request(text, range(100), priority=9))
    for start in (1000, 2000, 3000):
        ask(scheduler, make_request(text, range(start, start + 200)))
    assert scheduler.pool.tree.peek(Namespace(), range(100)) == 96


def test_a_request_waits_when_the_pool_is_taken(text: ModelText) -> None:
    config = replace(CONFIG, capacity_tokens=256)
    scheduler = make_scheduler(config)
    first = make_request(text, range(150), new_tokens=20)
    second = make_request(text, range(500, 650), new_tokens=20)
    scheduler.add(first)
    scheduler.add(second)
    scheduler.complete(scheduler.begin())
    assert (scheduler.num_running, len(scheduler.waiting)) == (1, 1)
    drive(scheduler)
    assert second.finish is FinishReason.LENGTH


def test_an_abort_gives_everything_back(text: ModelText) -> None:
    scheduler = make_scheduler()
    requests = [make_request(text, range(n, n + 99), new_tokens=9) for n in (0, 500)]
    scheduler.add(requests[0])
    scheduler.complete(scheduler.begin())
    scheduler.add(requests[1])
    step = scheduler.begin()
    for request in requests:
        scheduler.abort(request)
    assert scheduler.complete(step) == []
    assert not scheduler.busy
    assert scheduler.pool.used_tokens == 0
    assert scheduler.pool.tree.peek(Namespace(), range(99)) == 96


TIERED = replace(CONFIG, tier=TierConfig(chunk_tokens=64, capacity_tokens=640))


def test_the_tier_gives_back_whole_chunks_after_a_flush(text: ModelText) -> None:
    scheduler = make_scheduler(TIERED)
    ask(scheduler, make_request(text, range(200)))
    scheduler.pool.tree.clear()
    started_s = scheduler.now_s
    again = make_request(text, range(200), new_tokens=1)
    ask(scheduler, again)
    assert (again.cached.device, again.cached.storage) == (0, 192)
    assert scheduler.now_s - started_s == pytest.approx(0.5 + 0.192 + 0.008)
    third = make_request(text, range(200))
    ask(scheduler, third)
    assert (third.cached.device, third.cached.storage) == (192, 0)


def test_the_tier_isolates_salts_and_forgets_the_oldest_chunks(text: ModelText) -> None:
    scheduler = make_scheduler(TIERED)
    ask(scheduler, make_request(text, range(300), salt="a"))
    scheduler.pool.tree.clear()
    other = make_request(text, range(300), salt="b")
    ask(scheduler, other)
    assert other.cached.storage == 0
    ask(scheduler, make_request(text, range(1000, 1700), salt="b"))
    scheduler.pool.tree.clear()
    mine = make_request(text, range(300), salt="a")
    ask(scheduler, mine)
    assert mine.cached.storage == 0


def test_a_lost_chunk_ends_every_prefix_that_runs_through_it() -> None:
    tier = Tier(TierConfig(chunk_tokens=64, capacity_tokens=256))
    tier.store(Namespace("a"), range(256))
    assert tier.lookup(Namespace("a"), range(300)) == 256
    tier.store(Namespace("b"), range(64))
    assert tier.lookup(Namespace("a"), range(300)) == 0
    assert tier.used_tokens == 256


def test_a_request_that_waits_for_the_tier_lets_others_pass(text: ModelText) -> None:
    scheduler = make_scheduler(TIERED)
    ask(scheduler, make_request(text, range(200), new_tokens=1))
    scheduler.pool.tree.clear()
    scheduler.tier_delay_s = 5
    slow = make_request(text, range(200), new_tokens=1)
    scheduler.add(slow)
    scheduler.tier_delay_s = 0
    quick = make_request(text, range(500, 520), new_tokens=1)
    assert ask(scheduler, quick) == [quick, slow]
    assert slow.cached.storage == 192


def test_a_tier_that_is_down_is_neither_asked_nor_written(text: ModelText) -> None:
    scheduler = make_scheduler(TIERED)
    scheduler.pool.tier_down = True
    ask(scheduler, make_request(text, range(200)))
    scheduler.pool.tier_down = False
    scheduler.pool.tree.clear()
    again = make_request(text, range(200))
    ask(scheduler, again)
    assert again.cached.tokens == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 120), st.integers(0, 40), st.sampled_from([None, "a"]), st.booleans()
        ),
        max_size=20,
    )
)
def test_whatever_is_asked_memory_adds_up_and_all_are_answered(
    text: ModelText, asked: list[tuple[int, int, str | None, bool]]
) -> None:
    config = replace(
        CONFIG,
        capacity_tokens=320,
        chunked_prefill_tokens=48,
        max_running_requests=3,
        tier=TierConfig(capacity_tokens=512),
    )
    scheduler = make_scheduler(config)
    pool = scheduler.pool
    requests = [
        make_request(text, [(i // 20) % 3 for i in range(length)], salt=salt, new_tokens=new)
        for length, new, salt, _ in asked
    ]
    for request, (*_, step_first) in zip(requests, asked, strict=True):
        scheduler.add(request)
        if step_first and scheduler.busy:
            scheduler.complete(scheduler.begin())
        assert pool.free_tokens >= 0
        assert pool.held_tokens >= 0
    while scheduler.busy:
        scheduler.complete(scheduler.begin())
        assert pool.free_tokens >= 0
    assert pool.used_tokens == 0
    for request in requests:
        assert len(request.output) == request.max_new_tokens
        assert request.cached.tokens < len(request.prompt)


def test_a_prompt_that_ends_in_part_of_an_answer_is_continued_as_the_answer_was() -> None:
    prompt = list(range(300, 340))
    speaker = Speaker(LANGUAGE, prompt)
    said = [speaker.next(may_stop=True) for _ in range(8)]
    later = Speaker(LANGUAGE, prompt + said[:3])
    assert [later.next(may_stop=True) for _ in range(5)] == said[3:]


def test_answers_end_by_themselves_when_told_so() -> None:
    language = Language(words=(1, 2, 3), eos=9, eos_every_tokens=4)
    lengths = []
    for seed in range(200):
        speaker = Speaker(language, [seed])
        length = 1
        while speaker.next(may_stop=True) != language.eos:
            length += 1
        lengths.append(length)
    assert 3 < sum(lengths) / len(lengths) < 5


@pytest.mark.parametrize(
    ("field", "value"),
    [("page_size", 0), ("capacity_tokens", 16), ("context_tokens", 0)],
)
def test_settings_that_make_no_sense_are_refused(field: str, value: int) -> None:
    wrong: dict[str, Any] = {field: value}
    with pytest.raises(SimulatorConfigError) as refused:
        replace(CONFIG, **wrong)
    assert refused.value.subject == field


def test_a_chunk_that_is_no_multiple_of_the_page_is_refused() -> None:
    with pytest.raises(SimulatorConfigError, match="multiple of page_size"):
        replace(CONFIG, tier=TierConfig(chunk_tokens=50))
