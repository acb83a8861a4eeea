"""Source code: blocks are top-level definitions and methods, under their qualified names.

The source stays the text. What stands between definitions is cut at empty lines. Syntax errors
cost structure, never text: the grammar reads on behind them.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from tree_sitter import Node, Parser

from retrieval.documents import Block, BlockKind
from retrieval.parsing.languages import Language
from retrieval.parsing.layout import Layout, short_title

# A syntax tree takes some 50 times the source's bytes; what is longer than this is generated.
_MAX_TREE_CHARS = 4_000_000
# Scopes nest this deep at most; what is deeper stays in one block.
_MAX_SCOPES = 16
_PARAGRAPH = re.compile(r"\S.*(?:\n[^\S\n]*\S.*)*")
# Without a grammar: an empty line, then a line that starts something new at the margin.
_MARGIN_START = re.compile(r"\n[^\S\n]*\n(?=[^\s})\]])")
# What only ends things: brackets, and Ruby's word for them.
_ENDS_ONLY = re.compile(r"(?:[^\w]|\bend\b)*")
_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression", "class"})
_NAME_SEPARATOR = re.compile(r"::|\.")

_Path = tuple[str, ...]
# Where a block starts, in bytes, and what it stands under.
_Starts = list[tuple[int, _Path]]


def code_layout(text: str, language: Language) -> Layout:
    """Source code with its definitions.

    Args:
        text: cleaned.
    """
    grammar = language.grammar() if len(text) <= _MAX_TREE_CHARS else None
    if grammar is None:
        cuts = [0, *(found.end() for found in _MARGIN_START.finditer(text)), len(text)]
        return Layout(text=text, blocks=tuple(_spans(text, cuts)))
    source = text.encode()
    tree = Parser(grammar).parse(source)
    starts: _Starts = [(0, ())]
    _Reader(language, starts).scope(tree.root_node, (), 0)
    return Layout(text=text, blocks=tuple(_blocks(text, _in_characters(source, starts))))


def _spans(text: str, cuts: list[int]) -> Iterator[Block]:
    for start, end in pairwise(cuts):
        block = _block(text, start, end, ())
        if block is not None:
            yield block


def _block(text: str, start: int, end: int, path: _Path) -> Block | None:
    """A span without its outer white space; None if it is all white space."""
    span = text[start:end]
    stripped = span.strip()
    if not stripped:
        return None
    first = start + len(span) - len(span.lstrip())
    return Block(kind=BlockKind.LINES, start=first, end=first + len(stripped), path=path)


def _in_characters(source: bytes, starts: _Starts) -> _Starts:
    """The same places counted in characters, in order."""
    counted: _Starts = []
    byte = character = 0
    for start, path in sorted(starts, key=lambda item: item[0]):
        character += len(source[byte:start].decode(errors="ignore"))
        byte = start
        counted.append((character, path))
    return counted


def _blocks(text: str, starts: _Starts) -> Iterator[Block]:
    """Blocks from one start to the next; closing brackets go with what they close."""
    pending: Block | None = None
    for (start, path), (end, _) in pairwise([*starts, (len(text), ())]):
        block = _block(text, start, end, path)
        if block is None:
            continue
        if pending is not None and _ENDS_ONLY.fullmatch(text, block.start, block.end):
            path = pending.path or ()
            pending = Block(kind=BlockKind.LINES, start=pending.start, end=block.end, path=path)
            continue
        if pending is not None:
            yield from _paragraphs(text, pending)
        pending = block
    if pending is not None:
        yield from _paragraphs(text, pending)


def _paragraphs(text: str, block: Block) -> Iterator[Block]:
    """What belongs to no definition is cut at empty lines."""
    if block.path:
        yield block
        return
    for found in _PARAGRAPH.finditer(text, block.start, block.end):
        end = found.start() + len(found[0].rstrip())
        yield Block(kind=BlockKind.LINES, start=found.start(), end=end, path=())


class _Reader:
    """Notes where definitions start and end."""

    def __init__(self, language: Language, starts: _Starts) -> None:
        self._language = language
        self._starts = starts

    def scope(self, parent: Node, path: _Path, depth: int) -> None:
        """The definitions among a node's children."""
        children = parent.named_children
        opening: Node | None = None
        for position, child in enumerate(children):
            if self._leads(child, children[position + 1 : position + 2]):
                if not _ends_line_of(child, children[position - 1 : position]):
                    opening = opening or child
                continue
            self._child(child, opening or child, path, depth)
            opening = None

    def _child(self, child: Node, opening: Node, path: _Path, depth: int) -> None:
        language = self._language
        if depth < _MAX_SCOPES and child.type in language.transparent:
            self.scope(child, path, depth + 1)
            return
        definition = self._unwrapped(child)
        if definition is None:
            return
        names = _names(child, definition)
        if not names:
            return
        inner = (*path, *map(short_title, names))
        self._starts.append((opening.start_byte, inner))
        if definition.type in language.containers and depth < _MAX_SCOPES:
            body = definition.child_by_field_name("body") or definition
            self.scope(body, inner, depth + 1)
        self._starts.append((child.end_byte, path))

    def _unwrapped(self, node: Node) -> Node | None:
        """The definition that a node is or stands around."""
        language = self._language
        for _ in range(3):
            if node.type in language.containers or node.type in language.definitions:
                return node
            if node.type not in language.wrappers:
                return None
            known = language.containers | language.definitions | language.wrappers
            inner = next((child for child in node.named_children if child.type in known), None)
            if inner is None:
                return None
            node = inner
        return None

    def _leads(self, node: Node, following: list[Node]) -> bool:
        """Whether a comment or an attribute belongs to what stands right below it."""
        if "comment" not in node.type and node.type != "attribute_item":
            return False
        return bool(following) and following[0].start_point[0] - node.end_point[0] <= 1


def _ends_line_of(node: Node, before: list[Node]) -> bool:
    """Whether a comment stands behind something on its line."""
    return bool(before) and before[0].end_point[0] == node.start_point[0]


def _names(node: Node, definition: Node) -> list[str]:
    """A definition's name; with its owner's before it where the syntax says it there."""
    match definition.type:
        case "lexical_declaration":
            return _function_constant(definition)
        case "type_declaration":
            named = [child.child_by_field_name("name") for child in definition.named_children]
            return [_text(found) for found in named if found is not None][:1]
        case "impl_item":
            return _parts(definition.child_by_field_name("type"))
        case "method_declaration" if definition.child_by_field_name("receiver") is not None:
            receiver = _text(definition.child_by_field_name("receiver"))
            owner = re.findall(r"\w+", receiver.split("[")[0])[-1:]
            return [*owner, *_parts(definition.child_by_field_name("name"))]
    name = definition.child_by_field_name("name")
    if name is not None:
        return _parts(name)
    declarator = definition.child_by_field_name("declarator") or node.child_by_field_name(
        "declarator"
    )
    return _parts(_innermost(declarator))


def _function_constant(definition: Node) -> list[str]:
    """`const name = () => …`; other constants are no definitions of their own."""
    for child in definition.named_children:
        value = child.child_by_field_name("value")
        if value is not None and value.type in _FUNCTION_VALUES:
            return _parts(child.child_by_field_name("name"))
    return []


def _innermost(declarator: Node | None) -> Node | None:
    """C's declarators nest around the name: `*f(int)`."""
    for _ in range(_MAX_SCOPES):
        inner = declarator.child_by_field_name("declarator") if declarator else None
        if inner is None and declarator is not None and declarator.type == "reference_declarator":
            inner = next(iter(declarator.named_children), None)
        if inner is None:
            return declarator
        declarator = inner
    return declarator


def _parts(node: Node | None) -> list[str]:
    """`A::b` as A and b."""
    return [part for part in _NAME_SEPARATOR.split(" ".join(_text(node).split())) if part]


def _text(node: Node | None) -> str:
    text = node.text if node is not None else None
    return text.decode(errors="replace") if text else ""
