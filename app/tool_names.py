"""Names of functions that clients send. Pure.

Tools of agents are named by their servers, and may be called otherwise.

Source: OpenAI's reference of functions: a-z, A-Z, 0-9, underscores and dashes, at most 64.
"""

import re
from collections.abc import Iterable

from app.errors import InvalidRequestError

_NAME = re.compile("[a-zA-Z0-9_-]{1,64}")


def check_tool_names(names: Iterable[tuple[str, str]]) -> None:
    """
    Args:
        names: with the field that each stands in.

    Raises:
        InvalidRequestError: one is none that a function may have; names its field.
    """
    for param, name in names:
        if _NAME.fullmatch(name) is None:
            raise InvalidRequestError(
                f"{param}: {name[:80]!r} is no function's name: those have 1 to 64 letters (a to "
                "z, large or small), digits, underscores and dashes",
                param=param,
            )


def check_chat_tools(tools: object) -> None:
    """The same of chat completions' list; what isn't one is left to whoever reads it.

    Raises:
        InvalidRequestError: a name is none that a function may have.
    """
    if not isinstance(tools, list):
        return
    named = []
    for place, tool in enumerate(tools):
        match tool:
            case {"function": {"name": str() as name}}:
                named.append((f"tools.{place}.function.name", name))
    check_tool_names(named)
