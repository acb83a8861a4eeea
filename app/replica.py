"""An engine as the gateway sees it: its settings, its tokenizer, and whether the two agree.

The view is made when the engine first answers, and made again after it was away, since a restarted
engine may serve another model.
"""

from dataclasses import dataclass
from pathlib import Path

import anyio
import structlog

from app.engine import EngineClient, EngineInfo
from app.errors import EngineError, EngineNotReadyError
from app.parity import Parity, check_parity
from prompts import PromptTokenizer, load_tokenizer
from prompts.errors import ChatTemplateError, TokenizerNotFoundError

_POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """What is known of an engine. Without parity the gateway sends messages instead of ids."""

    info: EngineInfo
    tokenizer: PromptTokenizer | None
    parity: Parity


class Replica:
    """Watches one engine."""

    def __init__(self, name: str, client: EngineClient, *, tokenizer_folder: Path | None) -> None:
        self.name = name
        self.client = client
        self._folder = tokenizer_folder
        self._view: ReplicaView | None = None
        self._problem: str | None = None
        self._log = structlog.get_logger(replica=name)

    def view(self) -> ReplicaView:
        """What is known of the engine.

        Raises:
            EngineNotReadyError: it hasn't answered yet, or is away.
        """
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
            ready = await self.client.ready()
            if ready and self._view is None:
                self._view = await self._meet()
                self._log.info("engine_met", parity=self._view.parity.ok)
            elif not ready:
                self._lose("it is starting")
        except EngineError as error:
            self._lose(str(error))

    def _lose(self, problem: str) -> None:
        if self._view is not None:
            self._log.warning("engine_lost", problem=problem)
        self._view = None
        self._problem = problem

    async def _meet(self) -> ReplicaView:
        info = await self.client.info()
        folder = self._folder or Path(info.tokenizer_path)
        try:
            tokenizer = await anyio.to_thread.run_sync(load_tokenizer, folder)
            parity = await check_parity(self.client, tokenizer)
        except (TokenizerNotFoundError, ChatTemplateError) as error:
            return ReplicaView(
                info=info, tokenizer=None, parity=Parity(ok=False, problem=str(error))
            )
        self._problem = None
        return ReplicaView(info=info, tokenizer=tokenizer, parity=parity)
