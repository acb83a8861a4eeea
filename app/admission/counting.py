"""Requests that no engine works on: a tenant's limits of requests hold for them all the same."""

from fastapi import Request

from app.callers import caller_of
from app.services import services_of


async def counted(request: Request) -> None:
    """Let a request in, before any of its body is read; a route's or a router's dependency.

    It waits for no turn and counts no tokens. `Authentication` closes the ticket.

    Raises:
        RateLimitError: its tenant's limits don't let it.
    """
    admission = services_of(request).admission
    ticket = await admission.enter(caller_of(request), cost_tokens=0, takes_turn=False)
    request.scope["state"]["ticket"] = ticket


async def counted_for_users(request: Request) -> None:
    """The same, but an operator is never kept from looking at the deployment.

    Raises:
        RateLimitError: its tenant's limits don't let it.
    """
    if not caller_of(request).is_admin:
        await counted(request)
