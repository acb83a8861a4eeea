"""What calls of the standard library and of well-known packages give back, by full name."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from prompts.lint.python.methods import Call, formatted, updated
from prompts.lint.python.operators import as_items, environment_variable
from prompts.lint.python.sources import (
    BABEL,
    CALLS,
    RANDOM_MAKERS,
    is_locale_date,
    strips_reasoning,
)
from prompts.lint.python.taints import CLEAN, ORDER_KINDS, PER_REQUEST, Kind, has
from prompts.lint.python.values import (
    UNKNOWN,
    Constant,
    Entries,
    Item,
    Items,
    Message,
    Opaque,
    Part,
    Pattern,
    PromptTemplate,
    Reference,
    Text,
    Value,
    as_text,
    element,
    is_fixed,
    is_parsed,
    known_string,
    literal,
    mapped_taints,
    sequence,
    taints_of,
)

Function: TypeAlias = Callable[[Call], Value]

_ROLES = MappingProxyType(
    {
        "System": "system", "Developer": "system", "Human": "user", "User": "user",
        "AI": "assistant", "Assistant": "assistant", "Tool": "tool", "Function": "tool",
        "Chat": "", "": "",
    }
)  # fmt: skip
_MESSAGE_CLASS = re.compile(
    r"(?:ChatCompletion)?(System|Developer|Human|User|AI|Assistant|Tool|Function|Chat|)"
    r"Message(?:Param|PromptTemplate|Chunk)?(?:\.from_template)?"
)
_SGL_ROLES = frozenset({"system", "user", "assistant"})


def library_call(name: str, call: Call) -> Value | None:
    """The value of a known call; None for any other."""
    function = _FUNCTIONS.get(name)
    if function is not None:
        return function(call)
    if name == "time.strftime" and len(call.arguments) < 2:
        return Opaque(taints=call.taint(Kind.CLOCK))
    kind = CALLS.get(name)
    if kind is not None:
        return source_call(kind, call)
    if name in RANDOM_MAKERS:
        seed = call.argument(0, "seed")
        return Reference("seeded" if seed is not None and is_fixed(seed) else "random")
    if name.startswith(BABEL):
        place = call.keyword("locale")
        fixed = place is not None and is_fixed(place)
        return Opaque(taints=CLEAN if fixed else call.taint(Kind.LOCALE))
    return message_class(name, call)


def source_call(kind: Kind, call: Call) -> Value:
    """The value of a call that is a cause by itself."""
    taints = call.taint(kind, sure=kind is not Kind.TOOL_LISTING)
    if kind is Kind.LISTING or kind is Kind.TOOL_LISTING:
        return Items((Item(UNKNOWN, repeated=True),), order=taints)
    if kind is Kind.SAMPLE:
        given = call.arguments[0] if call.arguments else UNKNOWN
        return Opaque(taints=taints_of(given) | taints)
    return Opaque(taints=taints)


def message_class(name: str, call: Call) -> Value | None:
    """A framework's message object, by its class's name."""
    last = name.rpartition(".")[2]
    if last == "from_template":
        last = ".".join(name.split(".")[-2:])
    if last == "MessagesPlaceholder":
        return Message("placeholder", call.argument(0, "variable_name") or UNKNOWN)
    if name.startswith("sglang.") and last in _SGL_ROLES:
        return Message(last, call.arguments[0] if call.arguments else UNKNOWN, call.span)
    found = _MESSAGE_CLASS.fullmatch(last)
    if not found:
        return None
    role = _ROLES[found.group(1)]
    content = call.argument(0, "content") or call.keyword("template")
    if not role:
        role = known_string(call.argument(0, "role")) or ""
        content = call.keyword("content") or (call.arguments[1:] or (None,))[0]
    return Message(role, content, call.span) if content is not None else None


def dumped(call: Call) -> Value:
    """`json.dumps(...)`: the key order may be the caller's."""
    value = call.arguments[0] if call.arguments else call.keyword("obj") or UNKNOWN
    taints = taints_of(value)
    if is_parsed(value):
        taints |= call.taint(Kind.RESERIALISED)
    ordered = call.keyword("sort_keys")
    is_sorted = isinstance(ordered, Constant) and bool(ordered.value)
    if not is_sorted and not is_fixed(value) and not key_order_is_known(value):
        taints |= call.taint(Kind.JSON_ORDER, sure=False)
    return Text((Part(fixed=is_fixed(value), taints=taints, inner=value),))


def key_order_is_known(value: Value) -> bool:
    """Whether all mappings in a value have their keys in the order that the code spells."""
    match value:
        case Entries():
            return not value.open
        case Items():
            return all(_is_scalar_like(item.value) for item in value.items)
        case Opaque():
            return value.fixed or bool(value.taints) or _is_built(value.name)
        case _:
            return True


def _is_built(name: str) -> bool:
    """Whether a value comes from code, or a class, that gives its keys one order."""
    return (name.endswith("()") and name != "json()") or "schema" in name.lower()


def _is_scalar_like(value: Value) -> bool:
    return "." in value.name if isinstance(value, Opaque) else key_order_is_known(value)


def _loads(call: Call) -> Value:
    given = call.arguments[0] if call.arguments else UNKNOWN
    if is_fixed(given):
        return Opaque(fixed=True)
    return Opaque(taints=taints_of(given) | call.taint(Kind.PARSED))


def _first(call: Call) -> Value:
    return call.arguments[0] if call.arguments else UNKNOWN


def _second(call: Call) -> Value:
    """`filter` and `map` go through their second argument, and keep its order and its causes."""
    return as_items(call.arguments[1]) if len(call.arguments) > 1 else UNKNOWN


def _text(call: Call) -> Value:
    return as_text(_first(call)) if call.arguments else literal("")


def _length(call: Call) -> Value:
    """A number or a truth: no longer the text itself, but it may still differ by request."""
    if not has(taints_of(_first(call)), *PER_REQUEST):
        return UNKNOWN
    return Opaque(taints=call.taint(Kind.REQUEST, sure=False))


def _sorted(call: Call) -> Value:
    value = as_items(_first(call)) if not isinstance(_first(call), Opaque) else _first(call)
    return mapped_taints(value, ORDER_KINDS)


def _listed(call: Call) -> Value:
    if not call.arguments:
        return Items()
    given = as_items(call.arguments[0])
    return replace(given, unordered=False)


def _set_of(call: Call) -> Value:
    if not call.arguments:
        return Items(order=call.taint(Kind.SET_ORDER), unordered=True)
    given = as_items(call.arguments[0])
    lone = len(given.items) == 1 and not given.items[0].repeated
    order = given.order if lone else given.order | call.taint(Kind.SET_ORDER)
    return replace(given, order=order, unordered=True)


def _dict_of(call: Call) -> Value:
    base: Value = call.arguments[0] if call.arguments else Entries()
    if not isinstance(base, Entries):
        base = Entries(open=True, taints=taints_of(base))
    return updated(base, Entries(), call.keywords)


def _deque(call: Call) -> Value:
    items = as_items(_first(call)) if call.arguments else Items()
    size = call.argument(1, "maxlen")
    if size is None or size == Constant(None):
        return items
    return replace(items, order=items.order | call.taint(Kind.TRUNCATED))


def _chain(call: Call) -> Value:
    made: list[Item] = []
    order = CLEAN
    for each in call.arguments:
        items = as_items(each)
        made += items.items
        order |= items.order
    return sequence(made, order)


def _enumerated(call: Call) -> Value:
    given = as_items(_first(call))
    pairs = tuple(
        replace(item, value=Items((Item(UNKNOWN), Item(item.value)))) for item in given.items
    )
    return replace(given, items=pairs)


def _zipped(call: Call) -> Value:
    lists = [as_items(each) for each in call.arguments]
    order = CLEAN.union(*(each.order for each in lists))
    row = Items(tuple(Item(element(each)) for each in lists))
    exact = lists and not any(i.repeated for each in lists for i in each.items)
    if exact and len({len(each.items) for each in lists}) == 1:
        rows = zip(*(each.items for each in lists), strict=True)
        return sequence((Item(Items(tuple(r))) for r in rows), order)
    return Items((Item(row, repeated=True),), order)


def _compiled(call: Call) -> Value:
    pattern = known_string(call.argument(0, "pattern"))
    return Pattern(pattern) if pattern is not None else UNKNOWN


def _substituted(call: Call) -> Value:
    """`re.sub(pattern, replacement, text)`."""
    pattern = call.argument(0, "pattern")
    source = pattern.source if isinstance(pattern, Pattern) else known_string(pattern)
    return without_matches(source, call.argument(2, "string") or UNKNOWN, call)


def without_matches(pattern: str | None, text: Value, call: Call) -> Value:
    """A text with the matches of a pattern replaced."""
    taints = taints_of(text)
    if pattern is not None and strips_reasoning(pattern):
        taints |= call.taint(Kind.STRIPPED)
    return Text((Part(taints=taints, fixed=is_fixed(text)),))


def _getenv(call: Call) -> Value:
    return environment_variable(known_string(_first(call)), call.taint(Kind.MACHINE))


def _formatted(call: Call) -> Value:
    form = known_string(call.arguments[1]) if len(call.arguments) > 1 else ""
    return formatted(_first(call), form or "", call)


def _time_text(call: Call) -> Value:
    form = known_string(_first(call)) or ""
    taints = taints_of(call.arguments[1]) if len(call.arguments) > 1 else call.taint(Kind.CLOCK)
    return Opaque(taints=taints or (call.taint(Kind.LOCALE) if is_locale_date(form) else CLEAN))


def _read(call: Call) -> Value:
    return Opaque(fixed=all(is_fixed(each) for each in call.arguments), name="file")


def _joined_path(call: Call) -> Value:
    fixed = all(is_fixed(each) for each in call.arguments)
    taints = CLEAN.union(*(taints_of(each) for each in call.arguments))
    return Opaque(taints=taints, fixed=fixed, name="path")


def _template(syntax: str, *names: str) -> Function:
    def make(call: Call) -> Value:
        given = call.arguments[0] if call.arguments else None
        for name in names:
            given = given or call.keyword(name)
        return PromptTemplate(syntax, given or UNKNOWN)

    return make


def _trimmed_messages(call: Call) -> Value:
    """LangChain's `trim_messages`, which by default keeps the last ones."""
    strategy = known_string(call.keyword("strategy"))
    if strategy == "first":
        return _first(call)
    items = as_items(_first(call))
    return replace(items, order=items.order | call.taint(Kind.TRUNCATED))


def _picked(call: Call) -> Value:
    """One or a few of the arguments, such as `min` and `max`: order no longer matters."""
    value = element(_first(call)) if len(call.arguments) == 1 else _first(call)
    return mapped_taints(value, ORDER_KINDS)


_FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "str": _text, "repr": _text, "len": _length, "sorted": _sorted, "list": _listed,
        "tuple": _listed, "set": _set_of, "frozenset": _set_of, "dict": _dict_of,
        "reversed": _first, "enumerate": _enumerated, "zip": _zipped, "filter": _second,
        "map": _second, "iter": _first,
        "format": _formatted, "open": _read, "min": _picked, "max": _picked, "any": _length,
        "all": _length, "sum": _length, "int": _first, "round": _first, "float": _first,
        "bool": _length, "print": lambda _: UNKNOWN, "isinstance": lambda _: UNKNOWN,
        "json.dumps": dumped, "json.loads": _loads, "json.load": _read, "orjson.dumps": dumped,
        "simplejson.dumps": dumped, "ujson.dumps": dumped, "orjson.loads": _loads,
        "yaml.safe_load": _read, "yaml.dump": _text, "tomllib.load": _read,
        "copy.deepcopy": _first, "copy.copy": _first, "textwrap.dedent": _text,
        "textwrap.indent": _text, "inspect.cleandoc": _text, "html.escape": _text,
        "collections.deque": _deque, "itertools.chain": _chain, "re.sub": _substituted,
        "re.compile": _compiled,
        "os.getenv": _getenv, "os.environ.get": _getenv, "time.strftime": _time_text,
        "pathlib.Path": _joined_path, "pathlib.PurePath": _joined_path,
        "os.path.join": _joined_path,
        "os.fspath": _first, "pathlib.PosixPath": _joined_path,
        "datetime.datetime.fromtimestamp": _first, "datetime.datetime.strftime": _text,
        "jinja2.Template": _template("jinja", "source"),
        "string.Template": _template("dollar", "template"),
        "langchain_core.messages.trim_messages": _trimmed_messages,
        "langchain.schema.messages.trim_messages": _trimmed_messages,
    }
)  # fmt: skip
_TEMPLATE_CLASSES: Mapping[str, Function] = MappingProxyType(
    {
        "from_messages": _template("braces", "messages"),
        "from_template": _template("braces", "template"),
        "PromptTemplate": _template("braces", "template"),
        "ChatPromptTemplate": _template("braces", "messages"),
    }
)


def framework_template(name: str, call: Call) -> Value | None:
    """A LangChain-style prompt template, by the name of the class or its maker."""
    owner, _, last = name.rpartition(".")
    maker = _TEMPLATE_CLASSES.get(last)
    if maker is None or (last.startswith("from_") and not owner.endswith("PromptTemplate")):
        return None
    made = maker(call)
    if last == "from_template" and owner.endswith("ChatPromptTemplate"):
        made = _one_turn(made)
    if (
        isinstance(made, PromptTemplate)
        and known_string(call.keyword("template_format")) == "jinja2"
    ):
        return replace(made, syntax="jinja")
    return made


def _one_turn(template: Value) -> Value:
    """A chat template of one text: LangChain makes it a user turn."""
    if not isinstance(template, PromptTemplate):
        return template
    return replace(template, source=Items((Item(Message("user", template.source)),)))
