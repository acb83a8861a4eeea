"""Templates of frameworks (jinja2, `string.Template`, LangChain): values in, text out."""

import re
from dataclasses import replace

import jinja2
from jinja2 import nodes

from prompts.lint.python.frame import union
from prompts.lint.python.methods import put_anywhere
from prompts.lint.python.taints import CLEAN, Span, Taint, Taints
from prompts.lint.python.values import (
    Entries,
    Item,
    Items,
    Message,
    Opaque,
    Part,
    PromptTemplate,
    Text,
    Value,
    as_text,
    concatenated,
    known_string,
    literal,
    taints_of,
)
from prompts.lint.python.vocabulary import is_scaffold, variable_kind

_BRACES = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)(?:[.\[:!][^{}]*)?\}")
_DOLLAR = re.compile(r"\$\$|\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")


def filled(template: PromptTemplate, values: Entries, span: Span) -> Value:
    """The text or messages that a template makes; `span` is where that is asked for."""
    bound = replace(template.bound, open=values.open, taints=values.taints)
    for key, value in values.entries:
        bound = bound.put(key, value)
    return _filled(template.source, template.syntax, bound, span)


def _filled(source: Value, syntax: str, values: Entries, span: Span) -> Value:
    match source:
        case Items():
            items: list[Item] = []
            for item in source.items:
                items += _filled_item(item, syntax, values, span)
            return replace(source, items=tuple(items))
        case Message():
            content = _filled(source.content, syntax, values, span)
            return replace(source, content=content)
        case PromptTemplate():
            return filled(source, values, span)
        case Text():
            return concatenated(_pieces(source, syntax, values, span))
        case _:
            return _unknown_source(source, values)


def _filled_item(item: Item, syntax: str, values: Entries, span: Span) -> list[Item]:
    value = item.value
    if isinstance(value, Message) and value.role == "placeholder":
        name = known_string(value.content) or ""
        given = values.get(name.strip("{}"))
        if isinstance(given, Items):
            return [replace(i, repeated=True) for i in given.items] + _order_marks(given)
        return [Item(given or Opaque(name=name), repeated=True)]
    return [replace(item, value=_filled(value, syntax, values, span))]


def _order_marks(items: Items) -> list[Item]:
    if not items.order:
        return []
    return [Item(Opaque(taints=items.order), repeated=True)]


def _unknown_source(source: Value, values: Entries) -> Text:
    """A template whose text isn't known: what goes in may stand anywhere in it."""
    given = union(taints_of(value) for _, value in values.entries)
    fixed = not taints_of(source)
    return put_anywhere(given, Text((Part(fixed=fixed, taints=taints_of(source)),)))


def _pieces(source: Text, syntax: str, values: Entries, span: Span) -> list[Text]:
    pieces: list[Text] = []
    for part in source.parts:
        if part.text is None:
            pieces.append(Text((part,)))
        elif syntax == "jinja":
            pieces.append(_jinja(part.text, values, span))
        else:
            pattern = _DOLLAR if syntax == "dollar" else _BRACES
            pieces.append(_placeholders(part.text, pattern, values, span))
    return pieces


def _placeholders(text: str, pattern: re.Pattern[str], values: Entries, span: Span) -> Text:
    texts: list[Text] = []
    end = 0
    for found in pattern.finditer(text):
        texts.append(literal(text[end : found.start()]))
        end = found.end()
        name = next((group for group in found.groups() if group), None)
        if name is None:
            texts.append(literal(found.group()[0]))
        else:
            texts.append(_value(name, values, span))
    return concatenated([*texts, literal(text[end:])])


def _value(name: str, values: Entries, span: Span) -> Text:
    """A placeholder's value; if none was given, what its name says."""
    given = values.get(name)
    if given is not None:
        return as_text(given)
    kind = variable_kind(name)
    if kind is None:
        return as_text(Opaque(fixed=is_scaffold(name), name=name))
    taint = Taint(kind, span, sure=False, label=f"{{{name}}}")
    return as_text(Opaque(taints=frozenset({taint}), name=name))


def _jinja(text: str, values: Entries, span: Span) -> Text:
    try:
        tree = jinja2.Environment(autoescape=False).parse(text)
    except jinja2.TemplateSyntaxError:
        return Text((Part(taints=taints_of(values)),))
    known = _with_constants(tree, values)
    return concatenated([_node(node, known, span) for node in tree.body])


def _with_constants(tree: nodes.Template, values: Entries) -> Entries:
    """The values, and what the template itself sets to constants."""
    for assignment in tree.find_all(nodes.Assign):
        match assignment:
            case nodes.Assign(target=nodes.Name(name=name), node=nodes.Const(value=value)):
                values = values.put(name, literal(str(value)))
    return values


def _node(node: nodes.Node, values: Entries, span: Span) -> Text:
    match node:
        case nodes.Output():
            return concatenated([_node(child, values, span) for child in node.nodes])
        case nodes.TemplateData():
            return literal(node.data)
        case nodes.Const():
            return literal(str(node.value))
        case nodes.Name():
            return _value(node.name, values, span)
        case nodes.Getattr() | nodes.Getitem():
            return _field(node, values, span)
        case nodes.Filter(name="strftime" | "upper" | "lower" | "trim" | "title"):
            return _node(node.node, values, span) if node.node else literal("")
        case nodes.Assign() | nodes.Macro() | nodes.Import() | nodes.FromImport():
            return literal("")
        case _:
            return Text((Part(taints=_inner_taints(node, values, span)),))


def _field(node: nodes.Getattr | nodes.Getitem, values: Entries, span: Span) -> Text:
    path = _path(node)
    taints = _inner_taints(node, values, span)
    kind = variable_kind(path) if path and not taints else None
    if kind is not None:
        taints = frozenset({Taint(kind, span, sure=False, label=f"{{{{ {path} }}}}")})
    return Text((Part(taints=taints, name=path or ""),))


def _path(node: nodes.Node) -> str | None:
    match node:
        case nodes.Name():
            return str(node.name)
        case nodes.Getattr():
            base = _path(node.node)
            return f"{base}.{node.attr}" if base else None
        case nodes.Getitem(arg=nodes.Const(value=str(key))):
            base = _path(node.node)
            return f"{base}.{key}" if base else None
        case _:
            return None


def _inner_taints(node: nodes.Node, values: Entries, span: Span) -> Taints:
    taints = CLEAN
    found = [node] if isinstance(node, nodes.Name) else list(node.find_all(nodes.Name))
    for name in found:
        given = values.get(name.name)
        taints |= (
            taints_of(given) if given is not None else taints_of(_value(name.name, values, span))
        )
    return taints
