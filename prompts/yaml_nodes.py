"""YAML nodes with their places: reading fields, and complaints that name line and column."""

import contextlib
from pathlib import Path
from typing import TypeVar

import yaml

from prompts.errors import TemplateSyntaxError

T = TypeVar("T")

_HINTS = (
    ("mapping values are not allowed", "put quotes around text that holds ': '"),
    ("cannot start any token", "indent with spaces, and quote text that opens with a symbol"),
    ("expected ',' or", "close the bracket, or quote text that holds brackets or commas"),
    ("unexpected end of stream", "close the quotes"),
    ("expected <block end>", "give the lines of one list or mapping the same indentation"),
    ("undefined alias", "quote text that opens with *"),
    ("could not find expected ':'", "write `field: value`, and indent the lines of a text"),
)


def compose(path: Path, text: str) -> yaml.Node:
    """The root node of a file.

    Raises:
        TemplateSyntaxError: not YAML, or empty.
    """
    try:
        node = _compose(text)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(path, error) from error
    except yaml.reader.ReaderError as error:
        line, column = _place(text, error.position)
        problem = f"U+{ord(text[error.position]):04X} can't stand in YAML: write it as an escape"
        raise TemplateSyntaxError(path, line, column, problem) from error
    except RecursionError as error:
        raise TemplateSyntaxError(path, 1, 1, "the file is nested too deep") from error
    if node is None:
        raise TemplateSyntaxError(path, 1, 1, "the file is empty; it needs name, version, segments")
    return node


def _compose(text: str) -> yaml.Node | None:
    # libyaml is ten times as fast, but its complaints are poorer and it counts no byte-order mark.
    fast = getattr(yaml, "CSafeLoader", None)
    if fast is not None and not text.startswith("\ufeff"):
        with contextlib.suppress(yaml.YAMLError):
            return yaml.compose(text, Loader=fast)
    return yaml.compose(text, Loader=yaml.SafeLoader)


def decode(path: Path, data: bytes) -> str:
    """A file's text.

    Raises:
        TemplateSyntaxError: it isn't UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line, column = _place(data[: error.start].decode(), None)
        problem = f"byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8"
        raise TemplateSyntaxError(path, line, column, problem) from error


def _place(text: str, index: int | None) -> tuple[int, int]:
    before = text[:index]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _not_yaml(path: Path, error: yaml.MarkedYAMLError) -> TemplateSyntaxError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    said = error.problem or error.context or ""
    hint = next((f"; {hint}" for words, hint in _HINTS if words in said), "")
    return TemplateSyntaxError(path, line, column, f"not valid YAML: {said}{hint}")


class NodeReader:
    """Reads fields out of the nodes of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, node: yaml.Node, problem: str) -> TemplateSyntaxError:
        """An error at a node's place."""
        mark = node.start_mark
        return TemplateSyntaxError(self.path, mark.line + 1, mark.column + 1, problem)

    def text(self, node: yaml.Node) -> str:
        """A scalar that is text."""
        if isinstance(node, yaml.MappingNode) and node.flow_style:
            raise self.fail(node, "expected text: put quotes around text that opens with {")
        if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str":
            raise self.fail(node, "expected text (quote it if it looks like a number or a date)")
        return str(node.value)

    def boolean(self, node: yaml.Node) -> bool:
        """`true` or `false`."""
        if node.tag != "tag:yaml.org,2002:bool":
            raise self.fail(node, "expected true or false")
        return str(node.value).lower() in ("true", "yes", "on")

    def one_of(self, node: yaml.Node, choices: dict[str, T]) -> T:
        """What a word stands for."""
        word = self.text(node)
        if word not in choices:
            raise self.fail(node, f"{word!r} is not one of: {', '.join(choices)}")
        return choices[word]

    def sequence(self, node: yaml.Node) -> list[yaml.Node]:
        """The items of a list."""
        if not isinstance(node, yaml.SequenceNode):
            raise self.fail(node, "expected a list")
        return list(node.value)

    def pairs(self, node: yaml.Node) -> list[tuple[yaml.Node, yaml.Node]]:
        """The keys and values of a mapping."""
        if not isinstance(node, yaml.MappingNode):
            raise self.fail(node, "expected a mapping")
        return list(node.value)

    def fields(
        self, node: yaml.Node, *, required: tuple[str, ...], optional: tuple[str, ...]
    ) -> dict[str, yaml.Node]:
        """The values of a mapping whose keys are known."""
        fields: dict[str, yaml.Node] = {}
        for key, value in self.pairs(node):
            name = self.text(key)
            if name not in required + optional:
                known = ", ".join(required + optional)
                raise self.fail(key, f"unknown field {name!r}; known here: {known}")
            if name in fields:
                raise self.fail(key, f"{name!r} is given twice")
            fields[name] = value
        for name in required:
            if name not in fields:
                raise self.fail(node, f"{name!r} is missing")
        return fields
