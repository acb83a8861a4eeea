"""Small questions about Jinja nodes and the pieces that they became."""

from collections.abc import Iterable

import jinja2.nodes as n

from prompts.lint.pieces import Fork, Loop, Text, Value


def dotted_name(node: n.Node) -> str:
    """`a.b.c` for names and constant members, empty for anything else."""
    match node:
        case n.Name():
            return str(node.name)
        case n.Getattr():
            owner, member = dotted_name(node.node), node.attr
        case n.Getitem(arg=n.Const(value=str() as member)):
            owner = dotted_name(node.node)
        case _:
            return ""
    return f"{owner}.{member}" if owner else ""


def targets(target: n.Node) -> list[str]:
    if isinstance(target, n.Name | n.NSRef):
        return [target.name]
    return targets_of(target.iter_child_nodes())


def targets_of(nodes: Iterable[n.Node]) -> list[str]:
    return [name for node in nodes for name in targets(node)]


def output_names(pieces: list[Text | Value | Fork | Loop]) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    for piece in pieces:
        if isinstance(piece, Value | Loop):
            names |= piece.nature.names
    return names


def speaks(pieces: list[Text | Value | Fork | Loop]) -> bool:
    """Whether anything but whitespace is sent."""
    return any(
        piece.text.strip() if isinstance(piece, Text) else isinstance(piece, Value)
        for piece in pieces
    )


def is_blank(node: n.If, pieces: list[Text | Value | Fork | Loop]) -> bool:
    """Whether whitespace is all that the bodies hold, and more than a tag's own line end."""
    bodies = [*node.body, *node.else_, *(child for branch in node.elif_ for child in branch.body)]
    if not all(isinstance(child, n.Output) for child in bodies) or speaks(pieces):
        return False
    texts = [piece.text for piece in pieces if isinstance(piece, Text)]
    return any("\n" not in text or "\n" in text.removeprefix("\n") for text in texts)


def message_role(call: n.Call) -> str | None:
    if not isinstance(call.node, n.Name) or call.node.name not in ("message", "chat"):
        return None
    for keyword in call.kwargs:
        if keyword.key == "role" and isinstance(keyword.value, n.Const):
            return str(keyword.value.value)
    argument = constant_argument(call)
    return argument if isinstance(argument, str) else None


def constant_argument(call: n.Call) -> object:
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, n.Const) else None


def is_now(node: n.Node | None) -> bool:
    return isinstance(node, n.Const) and node.value in ("now", "today")
