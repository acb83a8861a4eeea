"""What stands between a socket and the app: limits on what a client may send, and how slowly."""

from app.wire.accepting import Accepting
from app.wire.protocol import GuardedProtocol
from app.wire.server import raise_file_limit, server_config

__all__ = ["Accepting", "GuardedProtocol", "raise_file_limit", "server_config"]
