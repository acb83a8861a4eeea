"""SGLang's own account of how it runs: the JSON of `GET /server_info`.

Source: sglang 0.5.23, srt/utils/common.py:3584 (`build_server_info`): every argument as it was
resolved, and what the scheduler found (`max_total_num_tokens`).
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from cache.engine_config.view import Process, Program, Setting, Written
from cache.errors import EngineConfigError
from prompts.lint.source_file import SourceFile

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[\s,:]*")
_NEEDED = "model_path"


def is_server_info(source: SourceFile) -> bool:
    """Whether a file is a JSON object with an engine's arguments."""
    return source.text.lstrip("\ufeff \t\r\n").startswith("{") and f'"{_NEEDED}"' in source.text


def read_server_info(source: SourceFile) -> list[Process]:
    """The engine that described itself.

    Raises:
        EngineConfigError: the file is no JSON object.
    """
    settings: list[Setting] = []
    unset: dict[str, Written] = {}
    for name, value, at in _members(source):
        if value is None:
            unset[name] = at
        else:
            settings.append(Setting(name=name, spelling=name, values=_values(value), at=at))
    start = source.text.find("{")
    engine = Process(
        program=Program.ENGINE,
        at=Written(source=source, start=start, stop=start + 1),
        settings=tuple(settings),
        unset=unset,
        resolved=True,
    )
    return [engine]


def _members(source: SourceFile) -> Iterator[tuple[str, Any, Written]]:
    """The members of the outer object, each with its place."""
    text = source.text
    at = 0
    try:
        at = _skip(text, text.index("{") + 1)
        while text[at] != "}":
            name, after = _DECODER.raw_decode(text, at)
            value, stop = _DECODER.raw_decode(text, _skip(text, after))
            yield name, value, Written(source=source, start=at, stop=stop)
            at = _skip(text, stop)
    except (ValueError, IndexError, RecursionError) as error:
        line = text.count("\n", 0, at) + 1
        reason = f"line {line}: it is no JSON object"
        raise EngineConfigError(path=source.path, reason=reason) from error


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _values(value: Any) -> tuple[str, ...]:
    match value:
        case bool():
            return (str(value).lower(),)
        case str():
            return (value,)
        case list() if all(isinstance(each, str) for each in value):
            return tuple(value)
        case _:
            return (json.dumps(value),)
