"""The gateway's responses of the background, with all that they need."""

from app.batches.opening import owner_of
from app.responses.background.runner import BackgroundRunner
from app.services import Services


def open_background(services: Services) -> BackgroundRunner:
    """What makes them."""
    runner = BackgroundRunner(services, owner=owner_of(services.settings.home))
    services.background.changed = runner.wake
    return runner
