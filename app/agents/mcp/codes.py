"""JSON-RPC error codes that our transports answer with in a server's place.

They are ours: no server has a reason to send them, and one that does harms itself only.
"""

NOT_SENT = -39_001
"""The request didn't reach the server."""
SESSION_GONE = -39_002
"""The server doesn't know the session any more, so it did nothing."""
REFUSED = -39_003
"""The server refused the request before it looked at it (HTTP 4xx)."""
LOST = -39_004
"""The request was sent, and the connection broke."""
TOO_LARGE = -39_005
"""The server answered, with more than is taken."""
UNREADABLE = -39_006
"""The server answered, with something that is no JSON-RPC message."""
