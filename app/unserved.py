"""OpenAI's routes that the gateway hasn't: each is refused by name, with what to do instead.

A test holds them against all that the installed SDK can ask for.
"""

import re
from collections.abc import Sequence

_ID = "[^/]+"
# (method, path, why); where any method is meant, all paths below it are, too.
_UNKEPT = "chat completions aren't kept; /v1/responses keeps what it answers"
_ROUTES: Sequence[tuple[str, str, str]] = (
    ("GET", "chat/completions", _UNKEPT),
    ("GET|POST|DELETE", f"chat/completions/{_ID}(/messages)?", _UNKEPT),
    (
        "POST",
        "responses/compact",
        "make a conversation, and say in its foreword.compaction when that is compacted",
    ),
    ("DELETE", f"models/{_ID}", "the engine's models are the operator's"),
    (
        ".*",
        "(assistants|threads|agents|chatkit)",
        "ask an agent of this deployment at /v1/responses, or keep a conversation at "
        "/v1/conversations",
    ),
    (".*", "(audio|images|videos|realtime|live)", "the gateway takes and gives text only"),
    (".*", "uploads", "send a file as a whole to /v1/files"),
    (".*", "moderations", "ask a moderation model of your own"),
    (".*", "fine_tuning", "an adapter is trained elsewhere, and loaded by the engine"),
    (".*", "evals", "`foreword bench` compares answers"),
    (".*", "webhook_(endpoints|event_types)", "the operator's settings name webhooks"),
    (".*", "(containers|skills|vaults)", "tools run with the client, or as MCP servers of agents"),
    (
        ".*",
        "(decisions|content_provenance_checks|safety|organization|projects)",
        "it is a service of OpenAI's own",
    ),
)
_PATTERNS = [
    (re.compile(method), re.compile(rf"/v1/{path}(/.*)?" if method == ".*" else f"/v1/{path}"), why)
    for method, path, why in _ROUTES
]


def unserved(method: str, path: str) -> str | None:
    """Why one of OpenAI's routes isn't here; None: it is none of those."""
    for methods, paths, why in _PATTERNS:
        if methods.fullmatch(method) and paths.fullmatch(path):
            return f"OpenAI's {method} {path} is not served here: {why}"
    return None
