"""A corpus' life in front of a simulated engine: warmed, resident, lost, and warmed again."""

from pathlib import Path

import anyio
import pytest

from app.callers import LOCAL_TENANT
from app.corpora import CorpusState, CorpusStatus
from app.errors import CorpusRestrictedError, CorpusTooLargeError, EngineNotReadyError
from app.settings import TiersSettings
from bench.engine_sim import ClockConfig, SimulatorThread, TierConfig
from retrieval import Collection
from tests.app.conditions import becomes
from tests.app.corpora.conftest import (
    PAGE,
    QUICK,
    Rig,
    corpus_settings,
    long_text,
    rig,
    simulator_config,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

FERRY, TOWER = long_text("The ferry leaves at nine", 60), long_text("The tower is open", 60)


async def warmed(it: Rig, name: str = "ferry", *texts: str) -> tuple[Collection, CorpusStatus]:
    """A collection that the engine holds."""
    collection = it.collection(name, *(texts or (FERRY, TOWER)))
    status = await it.services.corpora.warm(collection, why="test")
    assert status.state is CorpusState.RESIDENT, status
    return collection, status


async def test_two_questions_of_one_collection_share_all_of_it(
    tokenizer_folder: Path, home: Path
) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, status = await warmed(it)
            assert status.tokens is not None
            assert status.tokens % PAGE == 0
            assert (status.progress, status.problem, status.wanted) == (None, None, False)
            for text in ("When?", "Which tower?"):
                answer = await it.question(collection, text)
                assert answer.cached_tokens >= status.tokens
            # Its KV events agree.
            await it.state(collection, CorpusState.RESIDENT)
            assert await becomes(lambda: it.status(collection).resident_tokens == status.tokens)
            assert it.services.corpora.totals.computed_tokens <= status.tokens


async def test_a_prefix_is_made_once_for_each_content(tokenizer_folder: Path, home: Path) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection = it.collection("ferry", FERRY)
            first = await it.services.corpora.prefix(collection)
            assert await it.services.corpora.prefix(collection) is first
            it.add(collection, "tower.txt", TOWER)
            second = await it.services.corpora.prefix(it.again(collection))
            assert second.address != first.address
            assert [d.name for d in second.documents] == ["0.txt", "tower.txt"]


async def test_a_flush_is_noticed_and_it_is_warmed_again(
    tokenizer_folder: Path, home: Path
) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, _ = await warmed(it)
            await anyio.sleep(2.1)  # the proof is older than events take
            warmings = it.services.corpora.totals.warmings
            await it.flush()
            assert await becomes(lambda: it.services.corpora.totals.warmings > warmings)
            await it.state(collection, CorpusState.RESIDENT)


async def test_an_engine_that_restarts_gets_it_back(tokenizer_folder: Path, home: Path) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, status = await warmed(it)
            simulator.stop()
            await it.state(collection, CorpusState.STALE)
            simulator.start()
            await it.state(collection, CorpusState.RESIDENT)
            assert (await it.question(collection, "When?")).cached_tokens >= status.tokens


async def test_without_events_it_is_probed(tokenizer_folder: Path, home: Path) -> None:
    often = QUICK.model_copy(update={"probe_s": 0.3})
    with SimulatorThread(simulator_config(tokenizer_folder, events=False)) as simulator:
        async with rig(corpus_settings(home, simulator, often), simulator) as it:
            collection, status = await warmed(it)
            before = it.services.corpora.totals.computed_tokens
            assert await becomes(lambda: it.services.corpora.totals.warmings >= 3)
            # What is held is looked up by re-use, not computed again.
            done = it.services.corpora.totals
            assert done.computed_tokens == before
            await it.flush()
            computed = done.computed_tokens
            assert await becomes(
                lambda: done.computed_tokens - computed >= (status.tokens or 0) - PAGE
            )
            await it.state(collection, CorpusState.RESIDENT)


async def test_after_a_restart_of_the_gateway_it_is_looked_up_not_computed(
    tokenizer_folder: Path, home: Path
) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        settings = corpus_settings(home, simulator)
        async with rig(settings, simulator) as it:
            collection, status = await warmed(it)
            await anyio.sleep(0.2)
        computed = simulator.engine.scheduler.totals.prefill_tokens
        async with rig(settings, simulator) as it:
            assert await becomes(lambda: it.services.corpora.status(collection.id) is not None)
            again = await it.state(collection, CorpusState.RESIDENT)
            assert again.tokens == status.tokens
            spent = simulator.engine.scheduler.totals.prefill_tokens - computed
            assert spent < 400, "the isolation check and a few probes"


async def test_a_document_that_is_added_is_shown_at_once_and_only_it_is_computed(
    tokenizer_folder: Path, home: Path
) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, before = await warmed(it)
            it.add(collection, "added.txt", long_text("A lamp was lit", 20))
            prefix = await it.services.corpora.prefix(it.again(collection))
            assert prefix.documents[-1].name == "added.txt"
            computed = it.services.corpora.totals.computed_tokens
            assert it.status(collection).address == prefix.address
            after = await it.state(collection, CorpusState.RESIDENT)
            spent = it.services.corpora.totals.computed_tokens - computed
            assert after.address == prefix.address
            assert after.tokens is not None
            assert before.document_tokens is not None
            assert spent <= after.tokens - before.document_tokens + PAGE


async def test_a_removed_document_is_never_shown_again(tokenizer_folder: Path, home: Path) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, _ = await warmed(it)
            files = it.services.collections.list_collection_files(
                collection.id, tenant=LOCAL_TENANT
            )
            it.services.collections.remove_file(
                collection.id, files[0].file_id, tenant=LOCAL_TENANT
            )
            prefix = await it.services.corpora.prefix(it.again(collection))
            assert [d.name for d in prefix.documents] == ["1.txt"]
            assert it.status(collection).address == prefix.address
            await it.state(collection, CorpusState.RESIDENT)


async def test_a_changed_document_is_shown_once_it_is_warm(
    tokenizer_folder: Path, home: Path
) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, before = await warmed(it)
            changed = long_text("The ferry leaves at ten", 60)
            it.services.collections.sync(
                collection.id, [("0.txt", changed.encode())], tenant=LOCAL_TENANT
            )
            now = it.again(collection)
            assert now.revision > collection.revision
            served = await it.services.corpora.prefix(now)
            assert served.address == before.address, "the old one serves meanwhile"
            assert await becomes(lambda: it.status(collection).address != before.address)
            prefix = await it.services.corpora.prefix(now)
            assert any("at ten" in d.text for d in prefix.documents)
            assert not any("at nine" in d.text for d in prefix.documents)
            await it.state(collection, CorpusState.RESIDENT)


async def test_a_changed_document_waits_no_longer_than_told(
    tokenizer_folder: Path, home: Path
) -> None:
    at_once = QUICK.model_copy(update={"swap_s": 0})
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator, at_once), simulator) as it:
            collection, before = await warmed(it)
            text = long_text("The ferry leaves at ten", 60).encode()
            it.services.collections.sync(collection.id, [("0.txt", text)], tenant=LOCAL_TENANT)
            served = await it.services.corpora.prefix(it.again(collection))
            assert served.address != before.address


async def test_deleted_kv_is_never_taken_for_resident(tokenizer_folder: Path, home: Path) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, status = await warmed(it)
            warmings = it.services.corpora.totals.warmings
            await it.services.deletions.delete_tenant(LOCAL_TENANT)
            assert await becomes(lambda: it.services.corpora.totals.warmings > warmings)
            await it.state(collection, CorpusState.RESIDENT)
            assert (await it.question(collection, "When?")).cached_tokens >= status.tokens


async def test_a_deleted_collection_is_forgotten(tokenizer_folder: Path, home: Path) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, _ = await warmed(it)
            await it.services.deletions.delete_collection(collection.id, tenant=LOCAL_TENANT)
            assert await becomes(lambda: it.services.corpora.status(collection.id) is None)


async def test_two_that_do_not_fit_together_do_not_push_each_other_out(
    tokenizer_folder: Path, home: Path
) -> None:
    share = QUICK.model_copy(update={"pool_share": 0.8})
    config = simulator_config(tokenizer_folder, capacity_tokens=6000, context_tokens=5000)
    with SimulatorThread(config) as simulator:
        async with rig(corpus_settings(home, simulator, share), simulator) as it:
            first, status = await warmed(it, "first", long_text("The ferry leaves", 220))
            second = it.collection("second", long_text("The tower is open", 220))
            assert 2 * (status.tokens or 0) > 0.8 * 6000
            warmings = it.services.corpora.totals.warmings
            for _ in range(3):
                await it.question(first, "When?")
                await it.question(second, "When?")
            other = await it.state(second, CorpusState.COLD)
            assert "others take the room" in (other.problem or "")
            await anyio.sleep(1)
            assert it.services.corpora.totals.warmings - warmings <= 2
            # Asked for, it is warmed all the same.
            asked = await it.services.corpora.warm(second, why="test")
            assert asked.state is CorpusState.RESIDENT, asked


async def test_the_more_important_collection_gets_the_room(
    tokenizer_folder: Path, home: Path
) -> None:
    share = QUICK.model_copy(update={"pool_share": 0.8})
    config = simulator_config(tokenizer_folder, capacity_tokens=6000, context_tokens=5000)
    with SimulatorThread(config) as simulator:
        async with rig(corpus_settings(home, simulator, share), simulator) as it:
            await warmed(it, "first", long_text("The ferry leaves", 220))
            second = it.collection("second", long_text("The tower is open", 220), priority=3)
            await it.question(second, "When?")
            await it.state(second, CorpusState.RESIDENT)
            await anyio.sleep(1)
            assert it.status(second).state is CorpusState.RESIDENT
            assert it.services.corpora.totals.warmings <= 3


async def test_it_outlives_the_traffic_of_others(tokenizer_folder: Path, home: Path) -> None:
    config = simulator_config(tokenizer_folder, capacity_tokens=6000, context_tokens=5000)
    with SimulatorThread(config) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, status = await warmed(it)
            warmings = it.services.corpora.totals.warmings
            others = it.collection("others", "A short note.")
            for number in range(8):
                await it.question(others, long_text(f"Filler {number}", 150))
            answer = await it.question(collection, "When?")
            assert answer.cached_tokens >= status.tokens
            assert it.services.corpora.totals.warmings - warmings <= 1, "that of the others"


async def test_one_that_fits_no_window_is_refused_with_the_numbers(
    tokenizer_folder: Path, home: Path
) -> None:
    config = simulator_config(tokenizer_folder, context_tokens=2000)
    with SimulatorThread(config) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection = it.collection("large", long_text("The ferry leaves", 300))
            with pytest.raises(CorpusTooLargeError) as refusal:
                await it.services.corpora.prefix(collection)
            assert refusal.value.limit == 2000
            assert refusal.value.prompt_tokens > 2000
            with pytest.raises(CorpusTooLargeError):
                await it.services.corpora.warm(collection, why="test")
            status = await it.services.corpora.status_of(collection)
            assert status.state is CorpusState.TOO_LARGE
            assert f"{status.tokens:,}" in (status.problem or "")
            assert "2,000" in (status.problem or "")


async def test_the_tiers_give_back_what_the_engine_lost(tokenizer_folder: Path, home: Path) -> None:
    config = simulator_config(tokenizer_folder, tier=TierConfig(chunk_tokens=64))
    with SimulatorThread(config) as simulator:
        settings = corpus_settings(home, simulator).model_copy(
            update={"tiers": TiersSettings(chunk_tokens=64)}
        )
        async with rig(settings, simulator) as it:
            collection, status = await warmed(it)
            assert (status.tokens or 1) % 64 == 0
            assert status.warm_loaded_tokens == 0
            await anyio.sleep(2.1)
            await it.flush()
            assert await becomes(lambda: (it.status(collection).warm_loaded_tokens or 0) > 0)
            again = await it.state(collection, CorpusState.RESIDENT)
            assert again.tiered_tokens == again.tokens
            assert again.warm_loaded_tokens == again.tokens


async def test_live_traffic_is_served_between_the_pieces(
    tokenizer_folder: Path, home: Path
) -> None:
    slow = ClockConfig(prefill_tokens_per_s=500, speedup=1)
    with SimulatorThread(simulator_config(tokenizer_folder, clock=slow)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            large = it.collection("large", long_text("The ferry leaves at nine", 400))
            small = it.collection("small", "The tower opens at ten.")
            await it.services.corpora.begin_warm(large)
            status = await it.state(large, CorpusState.WARMING)
            seen: set[float] = set()
            await it.question(small, "When?")
            assert it.status(large).state is CorpusState.WARMING, "the question waited for it"
            while (status := it.status(large)).state is CorpusState.WARMING:
                seen.add(status.progress or 0)
                await anyio.sleep(0.02)
            assert status.state is CorpusState.RESIDENT, status
            assert len(seen) > 4


async def test_one_that_not_everybody_may_see_is_refused_at_once(
    tokenizer_folder: Path, home: Path
) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, _ = await warmed(it)
            collections = it.services.collections
            files = collections.list_collection_files(collection.id, tenant=LOCAL_TENANT)
            collections.update_file(
                collection.id, files[0].file_id, tenant=LOCAL_TENANT, attributes={}, access=["hr"]
            )
            with pytest.raises(CorpusRestrictedError):
                await it.services.corpora.prefix(it.again(collection))
            status = await it.services.corpora.status_of(it.again(collection))
            assert not status.resident
            assert "groups" in (status.problem or "")


async def test_memory_is_bounded_and_what_was_dropped_is_made_again(
    tokenizer_folder: Path, home: Path
) -> None:
    little = QUICK.model_copy(update={"memory_mb": 1})
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator, little), simulator) as it:
            # 300,000 characters each: two of them are more than is kept.
            them = [it.collection(str(i), long_text(f"Ferry {i}", 17_000)) for i in range(3)]
            counted = [(await it.services.corpora.status_of(c)).tokens for c in them]
            first = it.status(them[0])
            assert (first.state, first.tokens) == (CorpusState.COLD, None)
            assert (await it.services.corpora.status_of(them[0])).tokens == counted[0]


async def test_an_engine_without_priorities_is_asked_without_any(
    tokenizer_folder: Path, home: Path
) -> None:
    config = simulator_config(tokenizer_folder, priority_scheduling=False)
    with SimulatorThread(config) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            assert it.services.corpora.request_priority() is None
            await warmed(it)


async def test_what_nobody_wants_any_more_gives_way(tokenizer_folder: Path, home: Path) -> None:
    at_once = QUICK.model_copy(update={"swap_s": 0})
    config = simulator_config(tokenizer_folder, capacity_tokens=12_000)
    with SimulatorThread(config) as simulator:
        async with rig(corpus_settings(home, simulator, at_once), simulator) as it:
            collection, _ = await warmed(it)
            base = it.services.corpora.request_priority()
            assert base is not None
            for round_number in range(2):
                text = long_text(f"The ferry leaves at {round_number}", 60).encode()
                it.services.collections.sync(collection.id, [("0.txt", text)], tenant=LOCAL_TENANT)
                status = await it.services.corpora.warm(it.again(collection), why="test")
                assert status.state is CorpusState.RESIDENT
            lifted = it.services.corpora.request_priority()
            assert lifted is not None
            assert lifted > base
            await it.state(collection, CorpusState.RESIDENT)


async def test_without_an_engine_nothing_is_known_and_nothing_fails(
    tokenizer_folder: Path, home: Path
) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        settings = corpus_settings(home, simulator)
    async with rig(settings, simulator) as it:
        collection = it.collection("ferry", FERRY)
        status = await it.services.corpora.status_of(collection)
        assert (status.state, status.tokens, status.window_tokens) == (CorpusState.COLD, None, None)
        with pytest.raises(EngineNotReadyError):
            await it.services.corpora.warm(collection, why="test")


async def test_one_that_is_pinned_is_warmed_before_anybody_asks(
    tokenizer_folder: Path, home: Path
) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        settings = corpus_settings(home, simulator)
        async with rig(settings, simulator) as it:
            collection = it.collection("ferry", FERRY)
            it.services.collections.modify(collection.id, tenant=LOCAL_TENANT, mode="cag")
            corpora = it.services.corpora
            assert await becomes(lambda: corpora.status(collection.id) is not None)
            await it.state(collection, CorpusState.RESIDENT)


async def test_a_request_that_computes_a_corpus_is_its_warming(
    tokenizer_folder: Path, home: Path
) -> None:
    """Warming it beside the request would compute it twice."""
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, corpora = it.collection("ferry", FERRY), it.services.corpora
            await corpora.prefix(collection)
            corpora.begun(collection.id)
            await anyio.sleep(0.5)
            assert corpora.totals.warmings == 0
            corpora.ended(collection.id)
            await it.state(collection, CorpusState.RESIDENT)


async def test_a_collection_that_left_mode_cag_has_no_claim_any_more(
    tokenizer_folder: Path, home: Path
) -> None:
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection, _ = await warmed(it)
            it.services.corpora.left(collection.id)
            warmings = it.services.corpora.totals.warmings
            it.add(collection, "tower.txt", TOWER)
            await anyio.sleep(1.0)
            assert it.services.corpora.totals.warmings == warmings
            await it.services.corpora.prefix(it.again(collection))
            assert await becomes(lambda: it.services.corpora.totals.warmings > warmings)


async def test_a_flush_is_known_to_the_next_question(tokenizer_folder: Path, home: Path) -> None:
    """Not only to the next look."""
    seldom = QUICK.model_copy(update={"watch_s": 60.0})
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        async with rig(corpus_settings(home, simulator, seldom), simulator) as it:
            collection, _ = await warmed(it)
            await anyio.sleep(2.1)  # the proof is older than events take
            await it.flush()
            assert await becomes(lambda: it.status(collection).resident_tokens == 0)
