"""Bodies of usual chat requests, read without the framework's model of them.

What is read here means what `app.schemas` reads in it; whatever isn't sure to is left to that.
"""

from collections.abc import Mapping

import orjson

from app.openai_fields import IGNORED_FIELDS
from app.schemas import FORWARDED_FIELDS

# Larger ones take long enough for the rest not to matter, and are checked in more ways.
LONGEST_BYTES = 2**16
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_SCALARS = (str, int, float, bool)
# Of several answers to one prompt, and of tools, much more is to be known.
_ALONE = frozenset({"n", "parallel_tool_calls", "tool_choice", "tools"})
_PENALTIES = frozenset({"frequency_penalty", "presence_penalty"})
_NUMBERS = (float, int)
_MOST_STOPS = 32
_HOTTEST = 100


class Usual:
    """One request.

    Attributes:
        given: roles and texts of all messages but for the last one's text.
        content: that text; it is a user's.
        limit: most tokens of the answer, where the client says.
        extras: all other fields, in order.
        is_checked: whether the extras are known to be within the bounds of sampling.
    """

    __slots__ = (
        "content",
        "extras",
        "given",
        "is_checked",
        "limit",
        "model",
        "stream",
        "wants_usage",
    )

    def __init__(
        self,
        model: str,
        given: tuple[str, ...],
        content: str,
        stream: bool,
        wants_usage: bool,
        limit: int | None,
        extras: Mapping[str, object],
        is_checked: bool,
    ) -> None:
        self.model = model
        self.given = given
        self.content = content
        self.stream = stream
        self.wants_usage = wants_usage
        self.limit = limit
        self.extras = extras
        self.is_checked = is_checked


def usual_request(raw: bytes) -> Usual | None:
    """A body as a usual request; None: it isn't one, or is at fault."""
    try:
        given = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    if type(given) is not dict:
        return None
    if None in given.values():  # null: not given
        given = {name: value for name, value in given.items() if value is not None}
    take = given.pop
    model, messages, stream = take("model", None), take("messages", None), take("stream", False)
    if type(model) is not str or type(messages) is not list or type(stream) is not bool:
        return None
    options, older = take("stream_options", None), take("max_tokens", None)
    limit = take("max_completion_tokens", None)
    for most in (older, limit):
        if most is not None and (type(most) is not int or most < 1):
            return None
    texts: list[str] = []
    for message in messages:
        if type(message) is not dict or len(message) != 2:
            return None
        role, content = message.get("role"), message.get("content")
        if type(role) is not str or role not in _ROLES or type(content) is not str:
            return None
        texts.append(role)
        texts.append(content)
    if len(texts) < 2 or texts[-2] != "user":
        return None
    content = texts.pop()
    wants_usage = False
    if options is not None:
        if type(options) is not dict or list(options) != ["include_usage"]:
            return None
        wants_usage = options["include_usage"]
        if type(wants_usage) is not bool:
            return None
    is_checked = True
    for name, value in given.items():
        if name in _PENALTIES and type(value) in _NUMBERS and -2 <= value <= 2:
            continue
        if name == "top_p" and type(value) in _NUMBERS and 0 < value <= 1:
            continue
        if name == "temperature" and type(value) is float and 0 <= value <= _HOTTEST:
            continue
        if not _is_plain(name, value):
            return None
        is_checked = False
    return Usual(
        model, tuple(texts), content, stream, wants_usage, limit or older, given, is_checked
    )


def _is_plain(name: str, value: object) -> bool:
    """Whether a field is one that is passed on, or ignored, as it is."""
    if name in _ALONE:
        return name == "n" and type(value) is int and value == 1
    if name not in FORWARDED_FIELDS and name not in IGNORED_FIELDS:
        return False
    if name == "stop" and type(value) is list:
        return len(value) <= _MOST_STOPS and all(type(stop) is str for stop in value)
    return isinstance(value, _SCALARS)
