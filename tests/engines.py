"""What tests wait for of an engine, real or simulated, and of the tier server behind it."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.contracts.client import Client, EngineUnderTest, wait_until

_WAIT_S = 60.0
_LOOK_S = 0.1
# Stores that go on show within so many looks.
_LOOKS = 5
# A gateway that missed a batch asks for it again every few seconds, and twice while it joins.
_IN_A_ROW = 3
_AT_ONCE_S = 1.0


def flush(url: str) -> None:
    """Empty an engine's memory, once nothing runs: until then it refuses.

    Real engines first let their stores into the tiers' RAM end.
    """
    wait_until(lambda: httpx.post(f"{url}/flush_cache", trust_env=False).is_success)


@contextmanager
def stored(tier_url: str | None) -> Iterator[None]:
    """What is computed meanwhile is on the disk and in Redis at the end.

    Stores are nobody's business but the tier server's: no request waits for them.
    """
    let_stores_end(tier_url)
    before = _stored_chunks(tier_url)
    yield
    wait_until(lambda: all(map(int.__gt__, _stored_chunks(tier_url), before)))
    let_stores_end(tier_url)


def let_stores_end(tier_url: str | None) -> None:
    """Until nothing more is stored."""
    give_up = time.monotonic() + _WAIT_S
    before, still = _stored_chunks(tier_url), 0
    while still < _LOOKS:
        assert time.monotonic() < give_up, "there is no end of stores"
        time.sleep(_LOOK_S)
        after = _stored_chunks(tier_url)
        still, before = (still + 1 if after == before else 0), after


def wait_until_heard(engine: EngineUnderTest, *gateways: str) -> None:
    """Until each gateway hears of what the engine caches at once, and so will miss nothing more.

    The prompts that show it have a salt of their own.
    """
    client = Client(engine)
    give_up = time.monotonic() + _WAIT_S
    with client.http:
        for url in gateways:
            in_a_row = 0
            while in_a_row < _IN_A_ROW:
                assert time.monotonic() < give_up, f"{url} doesn't hear the engine's KV events"
                in_a_row = in_a_row + 1 if _hears(url, client) else 0


def compute_anything(client: Client) -> None:
    """A prompt of two pages that nobody sent before, and so KV events; too short for a chunk."""
    client.chat(client.ids(2 * client.page_size + 1, seed=secrets.randbits(32)))


def _hears(url: str, client: Client) -> bool:
    before = _event_batches(url)
    compute_anything(client)
    give_up = time.monotonic() + _AT_ONCE_S
    while _event_batches(url) == before:
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def _event_batches(url: str) -> int:
    told = httpx.get(f"{url}/foreword/replicas", trust_env=False).raise_for_status().json()
    return sum(replica["cache"]["event_batches"] for replica in told["data"])


def _stored_chunks(tier_url: str | None) -> list[int]:
    """Of each adapter, since the tier server's start."""
    told = httpx.get(f"{tier_url}/foreword/status", trust_env=False).raise_for_status().json()
    return [adapter["stores"]["chunks"] for adapter in told["adapters"]]
