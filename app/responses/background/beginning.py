"""A response of the background as it is asked for when it is begun."""

from collections.abc import Callable

from app.callers import Caller, Priority
from app.pipeline import open_account
from app.responses.background.records import Claimed
from app.responses.bodies import ResponsesRequest
from app.responses.running import Asked
from app.services import Services


def begun(services: Services, claimed: Claimed, *, now: Callable[[], float]) -> Asked:
    """As a client's own request, but that its end counts for this beginning alone."""
    account = open_account(services, tenant=claimed.tenant, prefix="resp_")
    if claimed.attempt == 1:
        account.request_id = claimed.id
    else:
        # An engine may still know the one before, and so does the ledger.
        account.request_id = f"{claimed.id}.{claimed.attempt}"
    return Asked(
        services=services,
        body=ResponsesRequest.model_validate_json(claimed.body),
        caller=Caller(
            tenant=claimed.tenant,
            ceiling=Priority.BACKGROUND,
            limits=services.keys.limits_of(claimed.tenant),
        ),
        account=account,
        response_id=claimed.id,
        created_at=int(claimed.created_at),
        received_bytes=len(claimed.body),
        attempt=claimed.attempt,
        write=lambda connection, stored: services.background.work.finish(
            connection, stored, attempt=claimed.attempt, now=now()
        ),
    )
