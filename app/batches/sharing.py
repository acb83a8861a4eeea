"""What two requests share of their prompts, told without making the prompts. Pure.

A request's key spells what its prompt is made of, in the prompt's order: prompts that begin alike
have keys that begin alike, and the longer the one, the longer the other.
"""

from collections.abc import Mapping

import orjson

_JSON = orjson.OPT_SORT_KEYS


def sharing_key(endpoint: str, body: Mapping[str, object]) -> bytes:
    """The key; where nothing is to be shared, all are equal."""
    # Foreword's options say which template is filled, and with what: that is before messages.
    model = orjson.dumps([body.get("model"), body.get("foreword")], option=_JSON)
    match endpoint:
        case "/v1/chat/completions":
            return model + _json(body.get("tools")) + _each(body.get("messages"))
        case "/v1/responses":
            head = model + _json(body.get("tools")) + _json(body.get("instructions"))
            if (conversation := conversation_of(endpoint, body)) is not None:
                # What was said before comes first, and is stored.
                return head + conversation.encode("utf-8", "surrogatepass")
            return head + _each(body.get("input"))
        case "/v1/completions":
            return model + _each(body.get("prompt"))
        case _:
            return b""


def conversation_of(endpoint: str, body: Mapping[str, object]) -> str | None:
    """The stored conversation that a request is a turn of; None: of none."""
    named = body.get("conversation") if endpoint == "/v1/responses" else None
    if isinstance(named, dict):
        named = named.get("id")
    return named if isinstance(named, str) else None


def _each(given: object) -> bytes:
    """A text as it is, a list item by item: a longer one goes on where a shorter one ends."""
    if isinstance(given, str):
        return given.encode("utf-8", "surrogatepass")
    if isinstance(given, list):
        return b"\n".join(map(_json, given))
    return _json(given)


def _json(given: object) -> bytes:
    return orjson.dumps(given, option=_JSON)
