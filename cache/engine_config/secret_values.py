"""Passwords and keys in configuration files, covered before any of their lines is shown.

A covered text has as many characters and bytes as before, so that every place in it stays.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from cache.engine_config.reading import ConfigKind, read_config
from cache.engine_config.view import Setting, json_object
from prompts.lint.source_file import SourceFile

_WORDS = (
    r"password|passwd|passphrase|secret|token|credentials?|requirepass|masterauth|primaryauth"
    r"|(?:api|access|auth|secret)[-_]?keys?"
)
# `_` and `-` part words, as capitals do: HF_TOKEN, --admin-api-key, accessKey.
_NAME = rf"(?:[\w.-]{{0,60}}[-_.])?(?:[A-Za-z]{{0,20}}(?:{_WORDS})|pass|pwd|auth)"
_IS_SECRET = re.compile(_NAME, re.IGNORECASE)
_QUOTED = r'"(?:[^"\\\n]|\\[^\n])*"?|\'[^\'\n]*\'?'
# A variable's default is a value, its name is none; nor is what begins a mapping or a list.
_VALUE = (
    r"(?:[\"']?\$\{\w{1,60}:?[-+])?(?![\"']?\$[\w{(]|[{\[])"
    rf"(?P<value>\\+\"[^\"\\\n]*|{_QUOTED}|[^\s\"',}}\]]+)"
)
_END = r"(?![\w-])"
# Values where no reader looks: comments, other programs' arguments, JSON within JSON.
_PATTERNS = (
    # NAME=value, NAME: value, "NAME": "value", \"NAME\":\"value\"
    rf"(?<![\w$-])(?<!\$\{{)-{{0,2}}{_NAME}{_END}\\*[\"']?[ \t]*[=:][ \t]*{_VALUE}",
    # --flag value, "--flag", "value", --flag \ value, - --flag and - value
    rf"--{_NAME}{_END}[\"']?(?:,\s*|[ \t]+\\\r?\n\s*|[ \t]+|\s*\n\s*-\s+){_VALUE}",
    # {name: NAME, value: "value"}
    rf"\bname[\"']?:\s*[\"']?{_NAME}{_END}[\"']?\s*,?\s*[\"']?value[\"']?:\s*{_VALUE}",
    # ${NAME:-value}
    rf"\$\{{{_NAME}:?[-+=]{_VALUE}",
    # redis.conf
    rf"(?m:^)[ \t]*(?:requirepass|masterauth|primaryauth|tls-key-file-pass)[ \t]+{_VALUE}",
    r"(?m:^)[ \t]*user[ \t][^\n]*?[ \t]>(?P<value>\S+)",
    # scheme://user:password@host
    r"://[^\s:/@\"']{0,200}:(?P<value>[^\s\"']{1,300})@",
)
_WRITTEN = tuple(re.compile(pattern, re.IGNORECASE) for pattern in _PATTERNS)
# One character for each length in UTF-8.
_COVERS = {1: "*", 2: "·", 3: "•", 4: "🞄"}
_MARKS = frozenset(" \t\r\n\"'\\,:=[]{}")
_LONG = 6


def covered(source: SourceFile, kind: ConfigKind | None = None) -> SourceFile:
    """The file with every password, key and token in it covered.

    Raises:
        EngineConfigError: the file can't be read.
    """
    text = source.text
    spans = list(_written(text))
    for setting in _secret_settings(source, kind):
        spans += _setting_spans(setting, text)
    characters = list(text)
    for start, stop in spans:
        for index in range(start, stop):
            characters[index] = _cover(characters[index])
    return SourceFile(source.path, "".join(characters).encode())


def _cover(character: str) -> str:
    return character if character in "\r\n" else _COVERS[len(character.encode())]


def _written(text: str) -> Iterator[tuple[int, int]]:
    for pattern in _WRITTEN:
        for found in pattern.finditer(text):
            start, stop = found.span("value")
            while start < stop and text[start] in "\\\"'":
                start += 1
            while stop > start and text[stop - 1] in "\\\"'":
                stop -= 1
            yield start, stop


def _secret_settings(source: SourceFile, kind: ConfigKind | None) -> Iterator[Setting]:
    """The settings and variables that hold a secret, whatever they are written in."""
    for process in read_config(source, kind):
        yield from process.settings
        yield from process.environment.values()


def _setting_spans(setting: Setting, text: str) -> Iterator[tuple[int, int]]:
    """Where a setting's secrets stand: in it, or where a variable's value was set."""
    for value in _secrets(setting):
        within = list(_occurrences(value, text, setting.at.start, setting.at.stop))
        elsewhere = list(_occurrences(value, text, 0, len(text)))
        yield from within
        yield from elsewhere
        if not within and not elsewhere:
            yield from _rest(setting, text)


def _secrets(setting: Setting) -> Iterator[str]:
    """The secret values that a setting has; in JSON they have names of their own."""
    if _IS_SECRET.fullmatch(setting.spelling.lstrip("-")):
        yield from (value for value in setting.values if value and not value.startswith("$"))
    if setting.name == "user":
        yield from (value[1:] for value in setting.values if value[:1] in "><#" and value[1:])
    for value in setting.values:
        fields = json_object(value) if value.startswith("{") else None
        if fields is not None:
            yield from _in_json(fields)


def _in_json(fields: Any) -> Iterator[str]:
    if isinstance(fields, list):
        for each in fields:
            yield from _in_json(each)
    elif isinstance(fields, dict):
        for name, value in fields.items():
            if isinstance(value, dict | list):
                yield from _in_json(value)
            elif value and not isinstance(value, bool) and _IS_SECRET.fullmatch(name):
                yield str(value)


def _occurrences(value: str, text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Every place of a value between two characters; a short one only where it stands alone."""
    for spelled in dict.fromkeys(_spellings(value)):
        bounds = ("", "") if len(spelled) >= _LONG else (r"(?<!\w)", r"(?!\w)")
        pattern = re.compile(bounds[0] + re.escape(spelled) + bounds[1])
        for found in pattern.finditer(text, start, stop):
            yield found.span()


def _spellings(value: str) -> Iterable[str]:
    escaped = json.dumps(value)[1:-1]
    plain = json.dumps(value, ensure_ascii=False)[1:-1]
    return (value, plain, escaped, plain.replace("\\", "\\\\").replace('"', '\\"'))


def _rest(setting: Setting, text: str) -> Iterator[tuple[int, int]]:
    """All behind the setting's name, where its value is written in a way that isn't known."""
    start = text.find(setting.spelling, setting.at.start, setting.at.stop)
    begin = setting.at.start if start < 0 else start + len(setting.spelling)
    for index in range(begin, setting.at.stop):
        if text[index] not in _MARKS:
            yield index, index + 1
