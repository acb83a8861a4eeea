"""Mirrors a sample of live traffic, beside it.

A request is looked at when its answer has been sent: no client waits for anything here. What fails
is counted by a fixed word; nothing is logged of single requests.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio
from starlette.types import Scope

from app.shadow.backlog import Backlog
from app.shadow.copies import (
    LiveAnswer,
    ShadowCopy,
    common_share,
    conversation_key,
    ids_body,
    is_drawn,
    is_greedy,
    messages_body,
    said_of,
    shadow_salt,
)
from app.shadow.counts import Outcome, ShadowCounts
from app.shadow.hearing import ShadowFailure
from app.shadow.rows import ShadowRow, ShadowRows, Side
from app.shadow.target import MARK, ShadowAnswer, Target
from cache.rows import RequestStatus

if TYPE_CHECKING:
    from app.accounts import Account
    from app.prepared import Prepared
    from app.schemas import ChatCompletionRequest
    from app.settings import ShadowSettings

_WRITE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """The mirroring; one event loop owns it."""

    settings: "ShadowSettings"
    target: Target
    rows: ShadowRows
    counts: ShadowCounts
    backlog: Backlog
    secret: bytes
    changed: asyncio.Event

    def offer(self, account: "Account", request: "ChatCompletionRequest", scope: Scope) -> None:
        """An answer has been sent; its request is mirrored if it is drawn. Waits for nothing."""
        prepared = account.prepared
        if account.status is not RequestStatus.OK or prepared is None or account.sent_at is None:
            return
        if not self._takes(account.tenant, prepared.template) or _is_marked(scope["headers"]):
            return
        messages = request.messages
        key = conversation_key(prepared.salt, prepared.template, messages)
        if not is_drawn(key, self.settings.fraction):
            return
        if account.copies > 1:
            self.counts.became(Outcome.LEFT_OUT)
            return
        copy = ShadowCopy(
            conversation=key,
            is_first=all(message.role != "assistant" for message in messages),
            streams=request.stream,
            greedy=is_greedy(prepared.body),
            live=_live(account, prepared, account.sent_at),
            body=self._body(prepared),
        )
        if self.backlog.put(copy):
            self.changed.set()
        else:
            self.counts.became(Outcome.DROPPED)

    async def watch(self) -> None:
        """Send copies as they come, for ever; those under way end with it."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write)
            while True:
                self.changed.clear()
                while self.backlog.under_way < self.settings.concurrency:
                    if (copy := self.backlog.take()) is None:
                        break
                    tasks.start_soon(self._mirror, copy)
                await self.changed.wait()

    def levels(self) -> dict[str, float | None]:
        """What waits, and what was lost."""
        return {"shadow_queue_depth": len(self.backlog), "shadow_lost_rows": self.rows.lost}

    def close(self) -> None:
        """What waits is dropped; what was measured is written."""
        self.counts.became(Outcome.DROPPED, self.backlog.clear())
        self.target.close()
        self.rows.flush()

    def _takes(self, tenant: str, template: str) -> bool:
        tenants, templates = self.settings.tenants, self.settings.templates
        if tenants and tenant not in tenants:
            return False
        return not templates or template in templates or template.partition("@")[0] in templates

    def _body(self, prepared: "Prepared") -> bytes:
        settings, salt = self.settings, shadow_salt(self.secret, prepared.salt)
        if settings.form == "ids":
            return ids_body(prepared.body, salt=salt, model=settings.model)
        return messages_body(
            prepared.body,
            model=settings.model or prepared.model,
            salt_field=settings.salt_field,
            salt=salt,
        )

    async def _mirror(self, copy: ShadowCopy) -> None:
        whole = self.backlog.is_whole(copy)
        try:
            row = self._compared(copy, await self.target.ask(copy), whole=whole)
        except ShadowFailure as failure:
            self.backlog.broken(copy)
            row = self._row(copy, Side(), whole, error=failure.reason, status=failure.status)
        except asyncio.CancelledError:  # the gateway ends
            self.counts.became(Outcome.DROPPED)
            raise
        finally:
            self.backlog.done(copy)
            self.changed.set()
        self.counts.measured(row)
        self.rows.add(row)

    async def _write(self) -> None:
        while True:
            await anyio.sleep(_WRITE_S)
            if self.rows.has_buffered:
                await anyio.to_thread.run_sync(self.rows.flush)

    def _compared(self, copy: ShadowCopy, answer: ShadowAnswer, *, whole: bool) -> ShadowRow:
        said, usage = said_of(answer.message), answer.usage
        side = Side(
            ttft_s=answer.ttft_s,
            e2e_s=answer.e2e_s,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.completion_tokens,
        )
        if not copy.greedy:
            return self._row(copy, side, whole, status=200)
        live = copy.live.said
        return self._row(
            copy, side, whole, status=200, equal=said == live, common=common_share(said, live)
        )

    def _row(
        self,
        copy: ShadowCopy,
        shadow: Side,
        whole: bool,
        *,
        status: int | None,
        error: str | None = None,
        equal: bool | None = None,
        common: float | None = None,
    ) -> ShadowRow:
        live = copy.live
        return ShadowRow(
            at=datetime.now(UTC),
            target=self.target.url,
            request_id=live.request_id,
            conversation=copy.conversation,
            tenant=live.tenant,
            template=live.template,
            whole=whole,
            live=Side(
                ttft_s=live.ttft_s,
                e2e_s=live.e2e_s,
                prompt_tokens=live.prompt_tokens,
                cached_tokens=live.cached_tokens,
                output_tokens=live.output_tokens,
            ),
            shadow=shadow,
            status=status,
            error=error,
            equal=equal,
            common=common,
        )


def _live(account: "Account", prepared: "Prepared", sent_at: float) -> LiveAnswer:
    usage, before_s = account.usage, sent_at - account.started
    return LiveAnswer(
        request_id=account.request_id,
        tenant=account.tenant,
        template=prepared.template,
        ttft_s=None if account.ttft_s is None else account.ttft_s - before_s,
        e2e_s=time.perf_counter() - sent_at,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.completion_tokens,
        said=said_of(account.spoken.message()),
    )


def _is_marked(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == MARK for name, _ in headers)
