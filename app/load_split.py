"""Which tier served a load, where the engine's own word leaves that open."""

import anyio
import structlog

from app.accounts import Account
from app.errors import TierServerError
from app.tier_client import TierClient
from cache.usage import Tier

_log = structlog.get_logger()


async def split_load(client: TierClient, account: Account, *, within_s: float) -> None:
    """Ask the tier server, and write its answer into the account.

    Nothing is written where it doesn't answer in time, knows of no load, or its tokens aren't those
    that the engine reported.
    """
    tiers = account.usage.by_tier
    if not tiers.storage or tiers.gpu is None or None not in (tiers.ram, tiers.ssd, tiers.redis):
        return
    loaded = None
    with anyio.move_on_after(within_s):
        try:
            loaded = await client.load_of(account.request_id)
        except TierServerError as error:
            _log.info("load_not_split", request_id=account.request_id, problem=str(error))
    split = loaded.tokens(held_tokens=tiers.gpu) if loaded else {}
    if split and sum(split.values()) == tiers.storage:
        account.split_storage(split[Tier.RAM], split[Tier.SSD], split[Tier.REDIS])
