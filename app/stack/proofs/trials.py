"""One prompt at one tier: computed, let sink, and asked for again."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.probes import random_prompt
from app.stack.proofs.rig import ProofRig
from app.stack.proofs.rules import Size, Trial
from cache.tier_status import AdapterStatus, TierStatus
from cache.usage import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A trial, and what would have to be sent to get its KV again."""

    trial: Trial
    ids: Sequence[int]
    salt: str


async def gpu_trial(rig: ProofRig, size: Size) -> Made:
    """At the engine's own cache.

    Raises:
        EngineError: the engine can't be asked.
    """
    ids, salt = await random_prompt(rig.engine, size.tokens), rig.salt()
    trial = Trial(
        tier=Tier.GPU,
        size=size,
        cold=await rig.ask(ids, salt=salt),
        same=await rig.ask(ids, salt=salt),
        other=await rig.ask(ids, salt=rig.salt()),
        unsalted=await rig.ask(ids, salt=None),
    )
    return Made(trial=trial, ids=ids, salt=salt)


async def trial_below(
    rig: ProofRig, size: Size, adapter: AdapterStatus | None, status: TierStatus
) -> Made:
    """At RAM (no adapter) or at an adapter: the other salts are asked before the right one.

    In that order the others can't be served from a tier above, and the last proves that something
    was there to be had.

    Raises:
        EngineError, TierServerError: engine or tier server can't be asked.
    """
    assert rig.tiers is not None
    ids, salt = await random_prompt(rig.engine, size.tokens), rig.salt()
    name = None if adapter is None else adapter.name
    before = await rig.tiers.status()
    cold = await rig.ask(ids, salt=salt)
    await rig.stored(before, chunks=size.chunks)
    stored = await rig.tiers.status()
    await rig.forget(ram=adapter is not None)
    if name is not None:
        await rig.is_well(name)
    async with rig.reading(name, status):
        other = await rig.ask(ids, salt=rig.salt())
        unsalted = await rig.ask(ids, salt=None)
        waiting = await rig.tiers.status()
        same = await rig.ask(ids, salt=salt)
        served = await rig.served(same)
        loaded = await rig.tiers.status()
    trial = Trial(
        tier=Tier.RAM if adapter is None else adapter.tier or Tier.RAM,
        size=size,
        cold=cold,
        other=other,
        unsalted=unsalted,
        same=same,
        served=served,
        stored_bytes=None if name is None else _bytes_a_chunk(before, stored, name),
        ram_bytes=loaded.chunk_bytes,
        load_s=None if name is None else _seconds_a_chunk(waiting, loaded, name),
    )
    return Made(trial=trial, ids=ids, salt=salt)


def _bytes_a_chunk(before: TierStatus, after: TierStatus, name: str) -> int | None:
    """As it lies in the adapter; LMCache doesn't count for every kind."""
    one, two = _adapter(before, name), _adapter(after, name)
    chunks, used = two.stores.chunks - one.stores.chunks, two.used_bytes - one.used_bytes
    return used // chunks if chunks > 0 and used > 0 else None


def _seconds_a_chunk(before: TierStatus, after: TierStatus, name: str) -> float | None:
    one, two = _adapter(before, name).loads, _adapter(after, name).loads
    chunks = two.chunks - one.chunks
    return (two.seconds - one.seconds) / chunks if chunks > 0 else None


def _adapter(status: TierStatus, name: str) -> AdapterStatus:
    return next(each for each in status.adapters if each.name == name)
