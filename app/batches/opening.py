"""The gateway's batches, with all that they need."""

import socket
from hashlib import sha256
from pathlib import Path

from starlette.types import ASGIApp

from app.batches.files import BatchFiles
from app.batches.runner import BatchRunner
from app.batches.sending import LineSender
from app.services import Services


def open_runner(services: Services, app: ASGIApp, *, state_of: object) -> BatchRunner:
    """What works on batches; `app` answers their requests, `state_of` is the app they name."""
    settings, turns = services.settings, services.admission.turns

    def prefill_s(tokens: int) -> float | None:
        speed = services.fleet.speed
        return None if speed is None else tokens / speed.tokens_per_s

    sender = LineSender(app, keys=services.keys, scope={"app": state_of})
    runner = BatchRunner(
        services.batches,
        BatchFiles(services.collections),
        sender,
        settings=settings.batches,
        wire=settings.wire,
        others=lambda: turns.in_flight + turns.depth - sender.admitted,
        owner=owner_of(settings.home),
        prefill_s=prefill_s,
    )
    services.batches.changed = runner.wake
    return runner


def owner_of(home: Path) -> str:
    """The same for the same gateway after a restart: its home is nobody else's."""
    return sha256(f"{socket.gethostname()}\0{home.resolve()}".encode()).hexdigest()[:32]
