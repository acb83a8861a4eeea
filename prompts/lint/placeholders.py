"""Text for `str.format`, f-strings, `%` and `string.Template`.

`{name}`, `{user.name!r:>10}`, `{datetime.now():%H:%M}`, `%(user_name)s` and `${user_name}` are
placeholders; `${HOME}`, `{{literal}}`, JSON and code are none. A name in braces of which nothing is
known is left alone, as it may just as well be prose.
"""

import ast
import re

from prompts.lint.pieces import CONSTANT, Facts, Nature, Text, Value
from prompts.lint.vocabulary import kind_of_call, kind_of_name

_FIELD = re.compile(
    r"(?<![{$\\`%#])\{(?P<expression>[A-Za-z_][\w.]{0,80}"
    r"(?:\[[^\]\n{}]{1,40}\]|\([^\n{}()]{0,40}\))?(?:\.[\w.]{1,40})?(?:\(\))?)(?:![rsa])?(?::[^{}\n\"']{0,40})?\}(?![}`])"
)
# `%(name)s`, and `${name}` of names of several words: `${HOME}` is a shell's.
_OTHER = re.compile(
    r"%\((?P<percent>[A-Za-z_]\w{0,60})\)[sd]|\$\{(?P<dollar>[a-z]{1,30}(?:_[a-z]+|[A-Z]\w+){1,6})\}"
)
_FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)


def read_placeholders(text: str) -> Facts:
    """Literal text and the placeholders in it that are known to change."""
    facts = Facts()
    position = 0
    code = _code_blocks(text)
    for found in _fields(text):
        nature = _nature(found[found.lastgroup or 0])
        inside_code = any(start <= found.start() < stop for start, stop in code)
        if nature is CONSTANT or inside_code:
            continue
        _literal(facts, text, position, found.start())
        facts.pieces.append(Value(found.start(), found.end(), nature, nested=False))
        position = found.end()
    _literal(facts, text, position, len(text))
    return facts


def _fields(text: str) -> list[re.Match[str]]:
    found = list(_FIELD.finditer(text)) if "{" in text else []
    if "${" in text or "%(" in text:
        found += _OTHER.finditer(text)
    return sorted(found, key=re.Match.start)


def _literal(facts: Facts, text: str, start: int, stop: int) -> None:
    if start < stop:
        facts.pieces.append(Text(start, stop, text[start:stop], certain=True))


def _nature(expression: str) -> Nature:
    try:
        tree = ast.parse(expression, mode="eval").body
    except SyntaxError:
        return CONSTANT
    if isinstance(tree, ast.Call):
        kind = kind_of_call(_dotted(tree.func))
        return CONSTANT.plus(kind) if kind else CONSTANT
    dotted = _dotted(tree)
    for name in (dotted.partition(".")[0], dotted.replace(".", "_"), dotted.rpartition(".")[2]):
        kind = kind_of_name(name) if name else None
        if kind:
            return Nature(kinds=frozenset({kind}), names=frozenset({dotted}))
    return CONSTANT


def _dotted(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=name):
            front = _dotted(owner)
            return f"{front}.{name}" if front else ""
        case ast.Subscript(value=owner):
            return _dotted(owner)
    return ""


def _code_blocks(text: str) -> list[tuple[int, int]]:
    """Characters of fenced code, which shows braces without meaning them."""
    fences = [found.start() for found in _FENCE.finditer(text)]
    stops = [*fences[1::2], len(text)]
    return list(zip(fences[::2], stops, strict=False))
