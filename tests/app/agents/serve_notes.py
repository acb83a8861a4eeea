"""Gateways in processes of their own that can be killed.

`python -m tests.app.agents.serve_notes` reads a port a line from stdin, and for each tells on
stdout the id of a process with a gateway. All are forks of one that has imported what it takes:
that is most of a start.
"""

import os
import signal
import sys
from pathlib import Path

import uvicorn

from app.main import create_app
from app.settings import AgentsSettings
from app.wire import server_config
from tests.app.agents.notes import NoteTools
from tests.gateways import gateway_settings


def main() -> None:
    """Arguments: home, agents' folder, file of the notes, seconds a call takes, engine."""
    # Nobody waits for those that were killed.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for its log
            _serve(int(line), *sys.argv[1:])
            return
        print(child, flush=True)  # noqa: T201


def _serve(port: int, home: str, folder: str, notes: str, takes_s: str, engine: str) -> None:
    settings = gateway_settings(Path(home), engine)
    settings = settings.model_copy(
        update={
            "agents": AgentsSettings(folder=Path(folder), lease_s=1.0),
            "gateway": settings.gateway.model_copy(update={"port": port}),
        }
    )
    app = create_app(settings, servers=NoteTools(path=Path(notes), takes_s=float(takes_s)))
    uvicorn.Server(server_config(app, settings, shutdown_s=5)).run()


if __name__ == "__main__":
    main()
