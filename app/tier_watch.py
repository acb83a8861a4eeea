"""The tier server's word about itself, looked at from time to time."""

from collections.abc import Callable

import anyio
import structlog

from app.errors import TierServerError
from app.looks import Looks
from app.tier_client import BREAK_EVEN, TierClient
from cache.tier_status import AdapterState, TierStatus
from cache.usage import Tier

_POLL_S = 5.0


class TierWatch:
    """The last look at one tier server; `status` is None while it doesn't answer.

    `chunk_tokens` stays known meanwhile: what it was given before is still counted in chunks.

    Args:
        on_loss: called when the server was started anew and has nothing but RAM: all that it was
            given before is gone.
    """

    def __init__(self, client: TierClient, *, on_loss: Callable[[], None] = lambda: None) -> None:
        self.status: TierStatus | None = None
        self.chunk_tokens: int | None = None
        self.problem: str | None = None
        self._client = client
        self._on_loss = on_loss
        self._instance: str | None = None
        self.looks = Looks(self._see)
        self._news = anyio.Event()
        self._log = structlog.get_logger()

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await anyio.sleep(_POLL_S if self.status is not None else 1.0)

    async def look(self) -> None:
        """Look once."""
        await self.looks.now()

    async def next_look(self) -> None:
        """Wait until somebody has looked."""
        await self._news.wait()

    async def _see(self) -> None:
        try:
            self.status = await self._client.status()
        except TierServerError as error:
            if self.problem is None:
                self._log.warning("tier_server_away", problem=str(error))
            self.status, self.problem = None, str(error)
        else:
            self.problem = None
            self.chunk_tokens = self.status.chunk_tokens
            self._notice_loss(self.status)
        self._news.set()
        self._news = anyio.Event()

    def _notice_loss(self, status: TierStatus) -> None:
        before, self._instance = self._instance, status.instance
        if before not in (None, status.instance) and not status.adapters:
            self._on_loss()

    @property
    def keeps_all(self) -> bool:
        """Whether all that was given to the tiers is still in one of them, as far as they know.

        What Redis evicts by itself is in nobody's count.
        """
        if self.status is None:
            return False
        evicted = self.status.evictions
        if not evicted.get(Tier.RAM, 0):
            return True
        return any(
            adapter.tier is Tier.SSD
            and adapter.state is AdapterState.OK
            and not (evicted.get(adapter.name, 0) or adapter.rejected)
            and not (adapter.stores.failed or adapter.stores.skipped)
            for adapter in self.status.adapters
        )

    @property
    def reasons(self) -> list[str]:
        """What is not as it should be, in sentences; `TierPolicy` tells what it switched off."""
        if self.status is None:
            return [] if self.problem is None else [self.problem]
        reasons: list[str] = []
        for adapter in self.status.adapters:
            if adapter.state is AdapterState.FAILING:
                why = f": {adapter.reason}" if adapter.reason else ""
                reasons.append(f"the tier {adapter.name} fails and is skipped for a while{why}")
            if adapter.state is AdapterState.OFF and not (adapter.reason or "").startswith(
                BREAK_EVEN
            ):
                why = f": {adapter.reason}" if adapter.reason else ""
                reasons.append(f"the tier {adapter.name} is switched off{why}")
            if adapter.rejected:
                reasons.append(
                    f"the tier {adapter.name} gave back {adapter.rejected} chunks that were altered"
                    " or damaged; they were deleted and computed again"
                )
        return reasons
