"""The gateway's webhooks, as its settings say."""

import sqlalchemy as sa

from app.errors import InvalidSettingError, WebhookRefusedError
from app.settings import WebhooksSettings
from app.webhooks.addresses import check_url
from app.webhooks.courier import Courier
from app.webhooks.outbox import Endpoint, Outbox
from app.webhooks.signing import secret_bytes


def open_outbox(settings: WebhooksSettings, database: sa.Engine) -> Outbox:
    """Where events wait.

    Raises:
        InvalidSettingError: a URL or a secret isn't one.
    """
    endpoints: list[Endpoint] = []
    for given in settings.endpoints:
        try:
            check_url(given.url, allow_private=settings.allow_private)
            key = secret_bytes(given.secret.get_secret_value())
        except (WebhookRefusedError, ValueError) as error:
            raise InvalidSettingError("webhooks.endpoints", str(error)) from error
        endpoints.append(Endpoint(url=given.url, key=key, tenant=given.tenant))
    return Outbox(database, endpoints)


def open_courier(settings: WebhooksSettings, outbox: Outbox) -> Courier:
    """What tells of them."""
    return Courier(outbox, allow_private=settings.allow_private, timeout_s=settings.timeout_s)
