"""An engine as the gateway sees it: its settings, its tokenizer, and whether the two agree.

The view is made when the engine first answers, and made again after it was away, since a restarted
engine may serve another model. An engine that was seen to serve one tenant's KV to another is
refused: there is no view of it.
"""

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import structlog

from app.engine import EngineClient, EngineInfo
from app.errors import EngineError, EngineLeaksError, EngineNotReadyError
from app.isolation import Isolation, IsolationVerdict, check_isolation
from app.parity import Parity, check_parity
from prompts import PromptTokenizer, load_tokenizer
from prompts.errors import ChatTemplateError, TokenizerNotFoundError

_POLL_S = 1.0
_READY_S = 5.0
_NOT_TRIED = Isolation(verdict=IsolationVerdict.UNPROVEN, problem="it wasn't tried yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """What is known of an engine. Without parity the gateway sends messages instead of ids."""

    info: EngineInfo
    tokenizer: PromptTokenizer | None
    parity: Parity
    isolation: Isolation = _NOT_TRIED


class Replica:
    """Watches one engine.

    Args:
        try_again_s: how long after a trial of its isolation that proved nothing, or a leak, the
            next one is made.
    """

    def __init__(
        self,
        name: str,
        client: EngineClient,
        *,
        tokenizer_folder: Path | None,
        try_again_s: float = 30.0,
    ) -> None:
        self.name = name
        self.client = client
        self._folder = tokenizer_folder
        self._try_again_s = try_again_s
        self._view: ReplicaView | None = None
        self._problem: str | None = None
        self._leak: str | None = None
        self._tried_at = 0.0
        self._log = structlog.get_logger(replica=name)

    def view(self) -> ReplicaView:
        """What is known of the engine.

        Raises:
            EngineNotReadyError: it hasn't answered yet, or is away.
            EngineLeaksError: it doesn't keep tenants apart.
        """
        if self._leak is not None:
            raise EngineLeaksError(self.client.url, self._leak)
        if self._view is None:
            raise EngineNotReadyError(self.client.url)
        return self._view

    @property
    def problem(self) -> str | None:
        """Why there is no view."""
        return self._problem

    async def watch(self) -> None:
        """Keep the view true, for ever."""
        while True:
            await self.refresh()
            await anyio.sleep(_POLL_S)

    async def refresh(self) -> None:
        """Look at the engine once."""
        try:
            ready = None
            with anyio.move_on_after(_READY_S):
                ready = await self.client.ready()
            if ready is None:
                self._lose(f"it hasn't answered for {_READY_S:g} s")
            elif not ready:
                self._lose("it is starting")
            elif self._is_due():
                await self._try(self._view or await self._meet())
        except EngineError as error:
            self._lose(str(error))

    def _is_due(self) -> bool:
        """Whether the engine is to be met, or tried again."""
        view = self._view
        if view is not None and view.isolation.verdict is IsolationVerdict.PROVEN:
            return False
        is_new = view is None and self._leak is None
        return is_new or time.monotonic() - self._tried_at >= self._try_again_s

    async def _try(self, view: ReplicaView) -> None:
        """Give the view out, unless the engine leaks."""
        isolation = await check_isolation(self.client, view.info)
        self._tried_at = time.monotonic()
        if self._leak is not None and isolation.verdict is IsolationVerdict.UNPROVEN:
            return  # what was seen to leak has to show that it doesn't any more
        if isolation.verdict is IsolationVerdict.LEAKS:
            self._refuse(isolation.problem or "")
            return
        if self._view is None:
            self._log.info("engine_met", parity=view.parity.ok, isolation=isolation.verdict.value)
        self._view, self._leak, self._problem = replace(view, isolation=isolation), None, None

    def _refuse(self, evidence: str) -> None:
        self._view, self._leak = None, evidence
        self._problem = str(EngineLeaksError(self.client.url, evidence))
        self._log.error("engine_refused", problem=self._problem)

    def _lose(self, problem: str) -> None:
        if self._view is not None:
            self._log.warning("engine_lost", problem=problem)
        # What was seen to leak stays refused, but is tried as soon as it is back.
        self._view, self._tried_at = None, -math.inf
        self._problem = problem

    async def _meet(self) -> ReplicaView:
        info = await self.client.info()
        folder = self._folder or Path(info.tokenizer_path)
        try:
            tokenizer = await anyio.to_thread.run_sync(load_tokenizer, folder)
            parity = await check_parity(self.client, tokenizer)
        except (TokenizerNotFoundError, ChatTemplateError, OSError, ValueError) as error:
            return ReplicaView(
                info=info, tokenizer=None, parity=Parity(ok=False, problem=str(error))
            )
        return ReplicaView(info=info, tokenizer=tokenizer, parity=parity)
