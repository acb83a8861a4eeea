"""`GET /foreword/shadow`: the live engine and the shadow target, compared."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Query, Request

from app.callers import require_admin
from app.routes.report import parse_moment
from app.services import services_of
from app.shadow.counts import Outcome
from app.shadow.rows import ShadowRow
from app.shadow.shadow import Shadow
from app.shadow.summary import summarise

router = APIRouter()

_OFF = {"form": None, "fraction": None, "since_start": None}


@router.get("/foreword/shadow")
async def shadow(
    request: Request,
    since: Annotated[str | None, Query()] = None,
    tenant: Annotated[str | None, Query()] = None,
    template: Annotated[str | None, Query()] = None,
) -> dict[str, Any]:
    """What was measured of mirrored requests to the target that is set now, in pairs."""
    require_admin(request)
    mirrors = services_of(request).shadow
    head = {"object": "foreword.shadow", "enabled": mirrors is not None}
    moment = parse_moment(since, datetime.now(UTC), "since")
    if mirrors is None:
        return {**head, "target": None, **_OFF, **summarise(())}
    target = mirrors.target.url

    def is_asked(row: ShadowRow) -> bool:
        return (
            row.target == target
            and (moment is None or row.at >= moment)
            and (tenant is None or row.tenant == tenant)
            and (template is None or template in (row.template, row.template.partition("@")[0]))
        )

    figures = await anyio.to_thread.run_sync(_figures, mirrors, is_asked)
    return {**head, "target": target, **_chosen(mirrors), **figures}


def _figures(mirrors: Shadow, is_asked: Callable[[ShadowRow], bool]) -> dict[str, Any]:
    return summarise([row for row in mirrors.rows.read() if is_asked(row)])


def _chosen(mirrors: Shadow) -> dict[str, Any]:
    counts = mirrors.counts
    return {
        "form": mirrors.settings.form,
        "fraction": mirrors.settings.fraction,
        "since_start": {
            **{outcome.value: counts.of(outcome) for outcome in Outcome},
            "waiting": len(mirrors.backlog),
            "lost_rows": mirrors.rows.lost,
        },
    }
