"""An engine's refusal in words for clients: one sentence, the field, and nothing of its insides.

SGLang tells what is wrong with a body as pydantic has it, as Python values, with the path of its
own source and the client's whole value; grammars' errors begin with a clock and a source file.

Source: SGLang 0.5.23 srt/entrypoints/http_server.py (`validation_exception_handler`).
"""

import ast
import re
from collections.abc import Iterable
from typing import NamedTuple

import orjson

from app.schemas import FORWARDED_FIELDS

# Characters of what is told, and of what is looked at for it.
_LONGEST = 500
_LOOKED_AT = 4096
_NO_REASON = "no reason given"
_COMPLAINT = re.compile(
    r"'loc': \('body'(?P<path>(?:, (?:\d+|'\w{1,64}'))*+)[^\n]{0,1000}?, "
    r"'msg': (?P<msg>'(?:[^'\\\n]|\\.)*+'|\"(?:[^\"\\\n]|\\.)*+\")"
)
# What follows is a stack, or what the client sent.
_INSIDES = re.compile(r"Traceback \(most recent call last\)|File \"[^\"\n]*+\", line \d")
_CLOCK = re.compile(r"\[\d\d:\d\d:\d\d\] ")
_PATH = re.compile(r"(?<![\w.+/-])/(?P<path>[\w.+/-]++)(?::\d+)*+:? ?")
_SOURCES = frozenset({"py", "pyx", "so", "cc", "cpp", "cu", "cuh", "h", "hpp", "rs", "jinja"})
_NAMED = re.compile(r"^['\"`]?([a-z][a-z_]*)['\"`]? (?:must|is|should|can|has|requires)\b")
_GRAMMAR = re.compile(r"^Failed to compile (\w+) grammar")
_VALIDATION = re.compile(r"^\d+ validation errors?\b")
# What clients call the engine's own names of their fields.
_NAMES = {"max_new_tokens": "max_tokens", "min_new_tokens": "min_tokens", "sampling_seed": "seed"}
_OWN_NAME = re.compile(rf"\b(?:{'|'.join(_NAMES)})\b")
_FORMATS = frozenset({"json", "json_schema", "schema_", "structural_tag"})
_FIELDS = FORWARDED_FIELDS | {"max_tokens"}
# Names of pydantic's own for the branches of a union, which stand among those of fields.
_TYPES = frozenset({"bool", "dict", "float", "int", "list", "str", "tuple"})
_FIELD = re.compile(r"\d+|[a-z][a-z0-9_]*")


class Refusal(NamedTuple):
    """What the engine says, and of which field, where that can be told."""

    message: str
    param: str | None = None


def refusal_in(body: bytes) -> Refusal:
    """The body of an engine's error: `{"message": …}`, `{"error": {"message": …}}`, or a text."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return plainly(body.decode(errors="replace"))
    match parsed:
        case {"message": str() as message} | {"error": {"message": str() as message}}:
            return plainly(message)
        case {"error": str() as message} | {"detail": str() as message}:
            return plainly(message)
        case {"detail": [{"loc": list() as loc, "msg": str() as problem}, *_]}:
            return _complaint(loc, problem)
        case _:
            return Refusal(_NO_REASON)


def plainly(message: str) -> Refusal:
    """One sentence of what the engine says, which may be many lines."""
    message = message[:_LOOKED_AT]
    if _VALIDATION.match(message):
        found = _COMPLAINT.search(message)
        if found is None:
            return Refusal("a field has a value that the engine doesn't take")
        path = re.findall(r"\w+", found["path"])
        return _complaint(path, str(ast.literal_eval(found["msg"])))
    cut = _INSIDES.split(message, maxsplit=1)[0]
    sentence = " ".join(_without_source(cut).split())
    sentence = _OWN_NAME.sub(lambda name: _NAMES[name[0]], sentence)[:_LONGEST]
    return Refusal(sentence or _NO_REASON, _field_of(sentence))


def _complaint(loc: Iterable[object], problem: str) -> Refusal:
    """A complaint of pydantic's."""
    names = []
    for place, part in enumerate(loc):
        if place == 0 and part == "body":
            continue
        name = str(part)
        if name in _TYPES or not _FIELD.fullmatch(name):
            break
        names.append(name)
    param = ".".join(names) or None
    sentence = _without_source(problem.removeprefix("Value error, "))[:_LONGEST]
    return Refusal(f"{param}: {sentence}" if param else sentence, param)


def _without_source(text: str) -> str:
    """Without a clock, and without paths of the engine's machine."""
    return _PATH.sub(_unless_source, _CLOCK.sub("", text))


def _unless_source(found: re.Match[str]) -> str:
    path = found["path"]
    is_route = path.startswith("v1/")
    is_deep = path.count("/") > 1
    return "" if path.rpartition(".")[2] in _SOURCES or (is_deep and not is_route) else found[0]


def _field_of(sentence: str) -> str | None:
    """The field that a sentence begins with."""
    found = _GRAMMAR.match(sentence) or _NAMED.match(sentence)
    if found is None:
        return None
    if found[1] in _FORMATS:
        return "response_format"
    return found[1] if found[1] in _FIELDS else None
