"""The proofs in their order, and a way out that leaves everything as it was."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.engine import EngineClient, EngineInfo
from app.errors import GatewayError
from app.stack.check import Check, note, problem
from app.stack.proofs import rules
from app.stack.proofs.rig import ProofRig
from app.stack.proofs.rules import Size, Trial
from app.stack.proofs.trials import Made, gpu_trial, trial_below
from app.stack.tier_checks import PROOF_REASON
from app.tier_client import TierClient
from app.upstream import Timeouts, Upstream
from cache.engine_loads import parse_loads
from cache.errors import EngineLoadsError
from cache.tier_status import AdapterState, AdapterStatus, TierStatus
from cache.usage import Tier

_ANSWER_S = 120.0
# Destroying a salt waits for requests that read its KV.
_TIER_ANSWER_S = 20.0
_ATTEMPTS = 3

Tell = Callable[[Check], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Base URLs; `tiers` is the tier server's HTTP port, None where there is none."""

    engine: str
    tiers: str | None


def run_proofs(addresses: Addresses, *, force: bool, tell: Tell) -> bool:
    """Prove what can be proven; False if a signal ended it.

    SIGINT, SIGTERM and SIGHUP end it in order: adapters are switched on again first. A second
    signal changes nothing.

    Args:
        force: also while the engine has requests.
    """

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None

        def stop() -> None:
            if not task.cancelling():
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        await prove(addresses, force=force, tell=tell)

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        return False
    return True


async def prove(addresses: Addresses, *, force: bool, tell: Tell) -> None:
    """All proofs, told one by one."""
    async with _clients(addresses) as (engine, tiers):
        try:
            info = await engine.info()
            refusal = None if force else await _busy(engine)
            if refusal is not None:
                tell(refusal)
                return
            rig = ProofRig(engine, tiers, info, tell=tell)
            try:
                await _prove_all(rig, info, tell)
            finally:
                await rig.clean_up()
        except (GatewayError, EngineLoadsError) as error:
            tell(problem("proofs", f"ended early: {error}", "see above, and the logs"))


async def _busy(engine: EngineClient) -> Check | None:
    loads = parse_loads(await engine.loads())
    requests = loads.running_requests + loads.waiting_requests
    if not requests:
        return None
    found = f"not made: the engine has {requests} requests, and they would lose their re-use"
    return problem("proofs", found, "wait until it is idle, or give --force")


async def _prove_all(rig: ProofRig, info: EngineInfo, tell: Tell) -> None:
    status = None if rig.tiers is None else await rig.tiers.status()
    room = min(info.context_tokens, (info.pool_tokens or info.context_tokens) // 2)
    size = rules.choose_size(
        page_tokens=info.page_tokens,
        chunk_tokens=None if status is None else status.chunk_tokens,
        room_tokens=room,
    )
    if size is None:
        tell(note("proofs", f"not made: the engine has no room for a chunk ({room} tokens)"))
        return
    _tell_trial((await gpu_trial(rig, size)).trial, None, tell)
    if status is None:
        if info.tiers:
            found = "not proven: the tier server's address isn't known"
            tell(note("isolation tiers", found, "give it with --tiers-url"))
        return
    await _below(rig, size, await _switched_on_again(rig, status, tell), tell)


async def _switched_on_again(rig: ProofRig, status: TierStatus, tell: Tell) -> TierStatus:
    """After a proof that was killed."""
    left_off = [each for each in status.adapters if each.reason == PROOF_REASON]
    for adapter in left_off:
        await rig.switch_on(adapter.name)
        found = "switched on again: an earlier proof was killed"
        tell(note(f"tier {adapter.name}", found))
    assert rig.tiers is not None
    return await rig.tiers.status() if left_off else status


async def _below(rig: ProofRig, size: Size, status: TierStatus, tell: Tell) -> None:
    """RAM, then each adapter; then what had just been served is destroyed."""
    assert rig.tiers is not None
    serdes = rules.parse_serdes(await rig.tiers.configuration())
    proven = await _tier(rig, size, None, None, status, tell)
    for number, adapter in enumerate(status.adapters):
        serde = serdes[number] if number < len(serdes) else None
        proven = await _tier(rig, size, adapter, serde, status, tell) or proven
    for tier in (Tier.SSD, Tier.REDIS):
        if all(each.tier is not tier for each in status.adapters):
            tell(note(f"isolation {tier}", "there is no such tier here"))
    if proven is not None:
        await rig.destroy(proven.salt)
        await rig.forget(ram=False)
        after = await rig.ask(proven.ids, salt=proven.salt)
        tell(rules.destroyed(proven.trial, after))


async def _tier(
    rig: ProofRig,
    size: Size,
    adapter: AdapterStatus | None,
    serde: str | None,
    status: TierStatus,
    tell: Tell,
) -> Made | None:
    """One tier's lines; its trial, if all came back.

    Args:
        adapter: None is RAM.
    """
    name = Tier.RAM.value if adapter is None else adapter.name
    if adapter is not None and adapter.tier is None:
        tell(note(f"isolation {name}", "not tried: it is none of Foreword's tiers"))
        return None
    if adapter is not None and adapter.state is not AdapterState.OK:
        found = f"not proven: the tier is {adapter.state} ({adapter.reason or 'no reason given'})"
        tell(note(f"isolation {name}", found))
        return None
    made = await trial_below(rig, size, adapter, status)
    for _ in range(_ATTEMPTS - 1):
        if made.trial.is_hit or made.trial.leaked is not None:
            break
        # One late answer, and the tier rests for a second: that says nothing of isolation.
        made = await trial_below(rig, size, adapter, status)
    _tell_trial(made.trial, serde, tell)
    return made if made.trial.is_hit else None


def _tell_trial(trial: Trial, serde: str | None, tell: Tell) -> None:
    tell(rules.isolation(trial))
    compared = rules.lossless(trial, serde=serde)
    if compared is not None:
        tell(compared)


@asynccontextmanager
async def _clients(addresses: Addresses) -> AsyncIterator[tuple[EngineClient, TierClient | None]]:
    timeouts = Timeouts(connect_s=5.0, first_byte_s=_ANSWER_S, between_bytes_s=_ANSWER_S)
    engine = EngineClient(Upstream(addresses.engine, timeouts=timeouts, max_connections=4))
    tiers = None
    try:
        if addresses.tiers is not None:
            tiers = TierClient(addresses.tiers, timeout_s=_TIER_ANSWER_S)
        yield engine, tiers
    finally:
        engine.close()
        if tiers is not None:
            tiers.close()
