"""Break-even against a tier server on a real socket, whose counters the tests advance."""

import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.engine import EngineClient
from app.engine_speed import EngineSpeed
from app.tier_client import TierClient
from app.tier_policy import TierPolicy
from app.tier_watch import TierWatch
from app.upstream import Timeouts, Upstream
from cache.break_even import SwitchRules, TierVerdict
from tests.app.conditions import becomes

pytestmark = pytest.mark.anyio

CHUNK_TOKENS, PER_TOKEN = 64, 1000
COMPUTED_PER_S = 1000


@dataclass
class Counters:
    """Both servers' counters: of the tier `ssd`, of the RAM above it, and of the engine."""

    instance: str = "a"
    tasks: int = 0
    tokens: int = 0
    seconds: float = 0.0
    ranks: int = 1
    enabled: bool = True
    reason: str | None = None
    computed: int = 0
    puts: list[tuple[bool, str]] = field(default_factory=list)

    def load(self, tokens: int, *, tokens_per_s: float) -> None:
        self.tasks += 1
        self.tokens += tokens
        self.seconds += tokens / tokens_per_s

    def status(self, _: Request) -> Response:
        chunks = self.tokens // CHUNK_TOKENS
        loads = {
            "tasks": self.tasks,
            "chunks": chunks,
            "bytes": self.tokens * PER_TOKEN * self.ranks,
            "seconds": self.seconds,
            "failed": 0,
            "late": 0,
        }
        stores = {
            "tasks": 0,
            "chunks": 0,
            "bytes": 0,
            "seconds": 0.0,
            "failed": 0,
            "skipped": 0,
        }
        adapter = {
            "name": "ssd",
            "enabled": self.enabled,
            "state": "ok" if self.enabled else "off",
            "reason": self.reason,
            "lookups": {"tasks": self.tasks, "seconds": 0.0, "late": 0, "skipped": 0},
            "loads": loads,
            "stores": stores,
            "rejected": 0,
            "used_bytes": 10,
            "capacity_bytes": 10**9,
        }
        return JSONResponse(
            {
                "instance": self.instance,
                "chunk_tokens": CHUNK_TOKENS,
                "chunk_bytes": CHUNK_TOKENS * PER_TOKEN * self.ranks,
                "ram": {
                    "used_bytes": 0,
                    "capacity_bytes": 10**9,
                    "loads": {"chunks": 0, "bytes": 0, "seconds": 0.0},
                },
                "adapters": [adapter],
                "evictions": {"ram": 0, "ssd": 0, "redis": 0},
                "salts": {"keys": 0, "destroyed": 0},
            }
        )

    async def switch(self, request: Request) -> Response:
        body = await request.json()
        self.enabled, self.reason = body["enabled"], body["reason"]
        self.puts.append((self.enabled, body["reason"]))
        name = request.path_params["name"]
        return JSONResponse({"name": name, "enabled": self.enabled, "reason": self.reason})

    def loads(self, _: Request) -> Response:
        self.computed += 2000
        rank = {
            "total_prefill_uncached_tokens": self.computed,
            "total_prefill_busy_us": self.computed * 1_000_000 // COMPUTED_PER_S,
        }
        return JSONResponse({"loads": [rank]})


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
def url(counters: Counters) -> Iterator[str]:
    routes = [
        Route("/foreword/status", counters.status),
        Route("/foreword/adapters/{name}", counters.switch, methods=["PUT"]),
        Route("/v1/loads", counters.loads),
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(60)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Watched:
    policy: TierPolicy
    watch: TierWatch
    clock: Clock

    async def advance(self) -> None:
        """Look, and let the policy take the look."""
        await self.watch.look()
        await self.policy.advance()


@pytest.fixture(params=[True])
async def watched(url: str, request: pytest.FixtureRequest) -> AsyncIterator[Watched]:
    timeouts = Timeouts(connect_s=5, first_byte_s=10, between_bytes_s=10)
    engine = EngineClient(Upstream(url, timeouts=timeouts, max_connections=2))
    speed, tiers, clock = EngineSpeed(engine), TierClient(url), Clock()
    for _ in range(2):
        await speed.advance()
    rules = SwitchRules(retest_s=100)
    watch = TierWatch(tiers)
    policy = TierPolicy(tiers, watch, speed, switch=request.param, rules=rules, clock=clock)
    watched = Watched(policy=policy, watch=watch, clock=clock)
    await watched.advance()
    yield watched
    tiers.close()
    engine.close()
    await anyio.lowlevel.checkpoint()


def load(counters: Counters, *, tokens_per_s: float, times: int = 5) -> None:
    for _ in range(times):
        counters.load(640, tokens_per_s=tokens_per_s)


async def test_a_tier_that_pays_is_left_alone(counters: Counters, watched: Watched) -> None:
    load(counters, tokens_per_s=10_000)
    await watched.advance()
    found = watched.policy.found["ssd"]
    assert found.verdict is TierVerdict.PAYS
    assert found.load_tokens_per_s == pytest.approx(10_000)
    assert found.compute_tokens_per_s == pytest.approx(COMPUTED_PER_S)
    assert watched.policy.reasons == ()
    assert counters.puts == []


@pytest.mark.parametrize("ranks", [1, 2, 8])
async def test_a_tokens_bytes_are_those_of_all_ranks(
    counters: Counters, watched: Watched, ranks: int
) -> None:
    """As the guard counts: a load's bytes and a chunk's are sums over the ranks."""
    counters.ranks = ranks
    load(counters, tokens_per_s=1500)
    await watched.advance()
    found = watched.policy.found["ssd"]
    assert found.load_tokens_per_s == pytest.approx(1500)
    assert found.loaded_tokens == pytest.approx(5 * 640)
    assert found.verdict is TierVerdict.PAYS
    assert counters.puts == []


async def test_a_slow_tier_is_switched_off_told_and_tried_again(
    counters: Counters, watched: Watched
) -> None:
    policy = watched.policy
    load(counters, tokens_per_s=500)
    await watched.advance()
    assert [on for on, _ in counters.puts] == [False]
    assert counters.reason is not None
    assert counters.reason.startswith("break-even: 500 tokens/s")
    (reason,) = policy.reasons
    assert "ssd tier is switched off" in reason
    assert "tried again in 100 s" in reason
    watched.clock.now = 100.0
    await watched.advance()
    assert [on for on, _ in counters.puts] == [False, True]
    assert policy.reasons == ()
    load(counters, tokens_per_s=500)
    await watched.advance()
    assert [on for on, _ in counters.puts] == [False, True, False]
    assert "tried again in 200 s" in policy.reasons[0]


async def test_a_tier_that_became_fast_stays_on_after_its_trial(
    counters: Counters, watched: Watched
) -> None:
    load(counters, tokens_per_s=500)
    await watched.advance()
    watched.clock.now = 100.0
    await watched.advance()
    load(counters, tokens_per_s=50_000)
    await watched.advance()
    assert counters.enabled
    assert watched.policy.reasons == ()
    assert watched.policy.found["ssd"].load_tokens_per_s == pytest.approx(50_000)


async def test_what_an_operator_switched_off_stays_off(
    counters: Counters, watched: Watched
) -> None:
    counters.enabled, counters.reason = False, "the disk is being replaced"
    load(counters, tokens_per_s=50_000)
    watched.clock.now = 1e6
    await watched.advance()
    assert counters.puts == []


async def test_a_gateway_that_starts_again_keeps_its_own_decision(
    counters: Counters, watched: Watched
) -> None:
    counters.enabled, counters.reason = False, "break-even: 500 tokens/s against 1,000 tokens/s"
    await watched.advance()
    assert counters.puts == []
    watched.clock.now = 100.0
    await watched.advance()
    assert [on for on, _ in counters.puts] == [True]


async def test_a_tier_server_that_starts_again_is_measured_anew(
    counters: Counters, watched: Watched
) -> None:
    load(counters, tokens_per_s=500)
    await watched.advance()
    counters.instance, counters.enabled, counters.reason = "b", True, None
    counters.tasks, counters.tokens, counters.seconds = 9, 64_000, 0.1
    await watched.advance()
    assert [on for on, _ in counters.puts] == [False]
    assert watched.policy.found["ssd"].verdict is TierVerdict.NOT_MEASURED
    load(counters, tokens_per_s=500)
    await watched.advance()
    assert [on for on, _ in counters.puts] == [False, False]


@pytest.mark.parametrize("watched", [False], indirect=True)
async def test_where_it_may_only_tell_it_tells(counters: Counters, watched: Watched) -> None:
    load(counters, tokens_per_s=500)
    await watched.advance()
    assert counters.puts == []
    (reason,) = watched.policy.reasons
    assert "loading from the ssd tier is slower than computing" in reason


async def test_a_tier_server_that_is_away_changes_nothing(url: str) -> None:
    engine = EngineClient(
        Upstream(
            url,
            timeouts=Timeouts(connect_s=1, first_byte_s=1, between_bytes_s=1),
            max_connections=1,
        )
    )
    client = TierClient("http://127.0.0.1:9")
    watch = TierWatch(client)
    policy = TierPolicy(client, watch, EngineSpeed(engine))
    await watch.look()
    await policy.advance()
    assert policy.status is None
    assert policy.found == {}
    assert policy.reasons == ()


async def test_a_tier_that_somebody_switched_on_is_measured_anew_before_it_is_switched_again(
    counters: Counters, watched: Watched
) -> None:
    load(counters, tokens_per_s=500)
    await watched.advance()
    assert not counters.enabled
    await watched.advance()
    counters.enabled, counters.reason = True, "the disk was replaced"
    await watched.advance()
    await watched.advance()
    assert [on for on, _ in counters.puts] == [False]
    assert watched.policy.found["ssd"].verdict is TierVerdict.NOT_MEASURED
    assert watched.policy.reasons == ()
    load(counters, tokens_per_s=500)
    await watched.advance()
    assert [on for on, _ in counters.puts] == [False, False]


async def test_a_tier_that_was_off_for_an_operator_begins_without_its_old_evidence(
    counters: Counters, watched: Watched
) -> None:
    load(counters, tokens_per_s=500, times=3)
    await watched.advance()
    counters.enabled, counters.reason = False, "the disk is being replaced"
    await watched.advance()
    counters.enabled, counters.reason = True, None
    load(counters, tokens_per_s=500, times=1)
    await watched.advance()
    assert counters.puts == []


async def test_loads_of_which_none_came_in_time_switch_a_tier_off(
    counters: Counters, watched: Watched
) -> None:
    counters.tasks, counters.seconds = 4, 2.4
    await watched.advance()
    assert [on for on, _ in counters.puts] == [False]
    assert counters.reason is not None
    assert counters.reason.startswith("break-even: 0.60 s a load, of which nothing came in time")


async def test_the_policy_takes_each_look_and_looks_at_nothing_itself(
    counters: Counters, watched: Watched
) -> None:
    load(counters, tokens_per_s=500)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watched.policy.watch)
        await anyio.lowlevel.checkpoint()
        await watched.watch.look()
        assert await becomes(lambda: not counters.enabled)
        tasks.cancel_scope.cancel()
