"""Calls: methods, libraries, functions of the module, and those that send a prompt."""

import ast
from collections.abc import Iterable
from dataclasses import replace

from prompts.lint.python.bindings import assign, with_kept_turns
from prompts.lint.python.expressions import evaluate
from prompts.lint.python.frame import Frame, dotted, span_of, union
from prompts.lint.python.library_calls import (
    framework_template,
    library_call,
    message_class,
    source_call,
    without_matches,
)
from prompts.lint.python.methods import (
    Call,
    entries_method,
    items_method,
    put_anywhere,
    text_method,
)
from prompts.lint.python.operators import as_items
from prompts.lint.python.prompt_templates import filled
from prompts.lint.python.sinks import SentPrompt, sent_prompt
from prompts.lint.python.sources import (
    METHODS,
    ORDERED_MAKERS,
    RANDOM_METHODS,
    RANDOM_SEEDS,
    SHUFFLES,
    is_locale_date,
    strips_reasoning,
)
from prompts.lint.python.taints import CLEAN, Kind, Taints, request_taints
from prompts.lint.python.values import (
    UNKNOWN,
    Constant,
    Entries,
    Items,
    Opaque,
    Part,
    Pattern,
    PromptTemplate,
    Reference,
    Routine,
    Text,
    Value,
    as_text,
    element,
    is_fixed,
    known_string,
    taints_of,
)
from prompts.lint.python.vocabulary import (
    call_kind,
    is_carrier,
    is_constant_name,
    is_history,
    is_scaffold,
    is_static_loader,
    is_summary,
)

_RENDERS = frozenset({"render", "render_async", "substitute", "safe_substitute"})
_FILLS = frozenset({"format", "format_messages", "format_prompt", "aformat_messages"})
_BATCHES = frozenset({"batch", "abatch"})
_RUNS = frozenset({"invoke", "ainvoke", "stream", "astream"}) | _BATCHES
_FILLS |= _RUNS
_TEXT_RESULTS = frozenset({"isoformat", "strftime", "ctime", "timestamp", "date", "time", "hex"})
_TEMPLATE_FILLS = _RENDERS | {"format", "format_map", "replace"}
_CUTS = frozenset({"split", "rsplit", "partition", "rpartition"})
_LIST_CHANGES = frozenset({"append", "extend", "insert", "pop", "popleft", "appendleft"})


def call(node: ast.Call, frame: Frame) -> Value:
    """The value of a call, with what it does to the frame."""
    function, receiver = _function(node.func, frame)
    path = _path(node.func, function)
    made = _arguments(node, path, frame)
    sent = sent_prompt(path, made)
    is_known = isinstance(function, Routine) or isinstance(receiver, PromptTemplate)
    if sent is not None and not is_known:
        frame.machine.send(sent)
        _remember_sent(node, sent.messages, frame)
        return Opaque(name="answer")
    if receiver is not None and isinstance(node.func, ast.Attribute):
        result = _method(node, node.func, receiver, made, frame)
        if result is not None:
            return result
    return _called(function, path, made, node, frame)


def _function(node: ast.expr, frame: Frame) -> tuple[Value, Value | None]:
    """The function, and for a method what it is called on."""
    if not isinstance(node, ast.Attribute):
        return evaluate(node, frame), None
    function = evaluate(node, frame)
    if isinstance(function, Reference | Routine):
        return function, None
    return function, evaluate(node.value, frame)


def _path(node: ast.expr, function: Value) -> str:
    if isinstance(function, Reference):
        return function.name.removeprefix("builtins.")
    path = dotted(node)
    if path is None and isinstance(node, ast.Attribute):
        return f"?.{_chain(node.value)}{node.attr}"
    return path or ""


def _chain(node: ast.expr) -> str:
    """The trailing names of what a method is called on: `chat.` of `f().chat.create`."""
    if isinstance(node, ast.Attribute):
        return f"{_chain(node.value)}{node.attr}."
    return ""


def _arguments(node: ast.Call, path: str, frame: Frame) -> Call:
    positional: list[Value] = []
    for each in node.args:
        value = evaluate(each, frame)
        if isinstance(each, ast.Starred):
            positional += [item.value for item in as_items(value).items]
        else:
            positional.append(value)
    keywords: list[tuple[str, Value]] = []
    for keyword in node.keywords:
        value = evaluate(keyword.value, frame)
        if keyword.arg is not None:
            keywords.append((keyword.arg, value))
        elif isinstance(value, Entries):
            keywords += value.entries
    return Call(tuple(positional), tuple(keywords), span_of(node), path)


def _remember_sent(node: ast.Call, messages: Value | None, frame: Frame) -> None:
    """The variables that a prompt was made of: what is done to them later changes the next one."""
    if isinstance(messages, Items):
        frame.kept |= {path for path, value in frame.variables.items() if value is messages}
    for each in (*node.args, *(keyword.value for keyword in node.keywords)):
        for inner in ast.walk(each):
            if isinstance(inner, ast.Name | ast.Attribute):
                path = dotted(inner)
                if path is None:
                    continue
                frame.kept.add(path)
                if is_history(path.rpartition(".")[2]):
                    frame.sent.add(path)


def _method(
    node: ast.Call, function: ast.Attribute, receiver: Value, made: Call, frame: Frame
) -> Value | None:
    """A method of a known kind of value; it may change what it is called on."""
    name = function.attr
    match receiver:
        case Text():
            return text_method(receiver, name, made)
        case PromptTemplate():
            return _template_method(receiver, node, made, frame)
        case Pattern():
            return _pattern_method(receiver, name, made)
        case Entries() if receiver.owner:
            return frame.machine.call_method(receiver, name, made, frame)
        case Entries():
            outcome = entries_method(receiver, name, made)
        case Items():
            outcome = items_method(receiver, name, made)
        case Opaque() if name in _LIST_CHANGES and _is_list_change(function, name, made):
            outcome = items_method(as_items(receiver), name, made)
        case Opaque() if name in _CUTS and made.arguments:
            mark = known_string(made.arguments[0])
            is_cut = mark is not None and strips_reasoning(mark)
            return text_method(as_text(receiver), name, made) if is_cut else None
        case _:
            return None
    if outcome is None:
        return None
    if outcome.changed is not None:
        changed = outcome.changed
        if frame.discarded is not node:
            # What is taken off and used, such as a system message, isn't lost.
            changed = _without_cut(changed, made)
        _change(function.value, changed, made, frame)
    return outcome.result


def _without_cut(value: Value, made: Call) -> Value:
    if not isinstance(value, Items):
        return value
    return replace(value, order=value.order - made.taint(Kind.TRUNCATED))


def _pattern_method(pattern: Pattern, name: str, made: Call) -> Value | None:
    if name not in ("sub", "subn", "split"):
        return None
    text = made.argument(1 if name.startswith("sub") else 0, "string")
    return without_matches(pattern.source, text or UNKNOWN, made)


def _is_list_change(function: ast.Attribute, name: str, made: Call) -> bool:
    """Whether a method of something unknown is one of a list: `pop` may be a mapping's."""
    if name not in ("pop", "popleft"):
        return True
    path = dotted(function.value) or ""
    return name == "popleft" or (is_history(path.rpartition(".")[2]) and bool(made.arguments))


def _change(target: ast.expr, value: Value, made: Call, frame: Frame) -> None:
    path = dotted(target)
    condition = frame.condition()
    value = with_kept_turns(path, value, frame)
    if path is not None:
        frame.changed.add(path)
        if path in frame.sent and isinstance(value, Items):
            frame.machine.cut_after_sending(value.order)
            frame.machine.stored(value.items[-1:])
    if isinstance(value, Items) and condition:
        items = tuple(
            replace(i, forks=i.forks | condition) if i.span == made.span else i for i in value.items
        )
        value = replace(value, items=items)
    if isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
        assign(target, value, frame)


def _template_method(
    receiver: PromptTemplate, node: ast.Call, made: Call, frame: Frame
) -> Value | None:
    name = made.path.rpartition(".")[2]
    if name == "partial":
        return _with_bound(receiver, (*made.keywords, *_supplied(node.keywords, frame)))
    if name not in _RENDERS and name not in _FILLS:
        return None
    given = made.arguments[0] if made.arguments else Entries()
    if name in _BATCHES:
        given = element(given)
    values = given if isinstance(given, Entries) else Entries(taints=taints_of(given))
    for key, value in made.keywords:
        values = values.put(key, value)
    result = filled(receiver, values, made.span)
    if isinstance(result, Items):
        frame.machine.send_messages(result, made)
    elif isinstance(result, Text) and receiver.syntax == "braces" and name in _RUNS:
        frame.machine.send(SentPrompt(line=made.span.line, label=made.path, text=result))
    return result


def _with_bound(template: PromptTemplate, given: Iterable[tuple[str, Value]]) -> PromptTemplate:
    bound = template.bound
    for key, value in given:
        bound = bound.put(key, value)
    return replace(template, bound=bound)


def _supplied(given: Iterable[ast.keyword], frame: Frame) -> list[tuple[str, Value]]:
    """Values for a template; it calls those that are functions whenever it is filled in."""
    named = [(each.arg, each.value) for each in given if each.arg is not None]
    return [(key, _supply(node, frame)) for key, node in named]


def _supply(node: ast.expr, frame: Frame) -> Value:
    if isinstance(node, ast.Lambda):
        return evaluate(node.body, frame)
    value = evaluate(node, frame)
    if not isinstance(value, Routine | Reference):
        return value
    called = evaluate(ast.copy_location(ast.Call(node, [], []), node), frame)
    return called if isinstance(value, Routine) or taints_of(called) else value


def _partial_variables(node: ast.Call) -> list[ast.keyword]:
    """What `partial_variables={...}` spells out, as if by keywords."""
    return [
        ast.keyword(key.value, value)
        for keyword in node.keywords
        if keyword.arg == "partial_variables" and isinstance(keyword.value, ast.Dict)
        for key, value in zip(keyword.value.keys, keyword.value.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    ]


def _called(function: Value, path: str, made: Call, node: ast.Call, frame: Frame) -> Value:
    if isinstance(function, Routine):
        return frame.machine.call_routine(function, made, node, frame)
    known = _known_call(path, made, node, frame)
    if known is not None:
        return known
    return _unknown_call(function, path, made)


def _known_call(path: str, made: Call, node: ast.Call, frame: Frame) -> Value | None:
    if path in SHUFFLES and node.args:
        _change(node.args[0], _shuffled(made), made, frame)
        return Constant(None)
    if path in RANDOM_SEEDS and made.arguments and is_fixed(made.arguments[0]):
        frame.variables["random.seeded"] = Constant(value=True)
        return Constant(None)
    if path.startswith("random.") and "random.seeded" in frame.variables:
        return Opaque(fixed=True)
    found = library_call(path, made)
    if found is not None:
        return found
    template = framework_template(path, made)
    if isinstance(template, PromptTemplate):
        return _with_bound(template, _supplied(_partial_variables(node), frame))
    return template


def _shuffled(made: Call) -> Value:
    items = as_items(made.arguments[0])
    return replace(items, order=items.order | made.taint(Kind.SAMPLE))


def _unknown_call(function: Value, path: str, made: Call) -> Value:
    """A function or method that isn't known: its name may say what it gives back."""
    owner, _, last = path.rpartition(".")
    base = taints_of(function) if isinstance(function, Opaque) else CLEAN
    special = _special_method(last, owner, base, made)
    if special is not None:
        return special
    message = message_class(path, made)
    if message is not None:
        return message
    kind = call_kind(path)
    if kind is Kind.DOCUMENTS and made.arguments and _all_fixed(made):
        return Opaque(fixed=not base, taints=base, name=f"{last}()")
    if kind is not None:
        return Opaque(taints=made.taint(kind, sure=False), name=last)
    given = union(taints_of(v) for v in (*made.arguments, *(v for _, v in made.keywords)))
    named = owner.rpartition(".")[2]
    if last in _TEMPLATE_FILLS and (is_scaffold(named) or is_constant_name(named)):
        return put_anywhere(given, Text((Part(fixed=True),)))
    if last in _TEXT_RESULTS or is_carrier(last):
        return _carried(base | given, made)
    if is_static_loader(last) and not base | given:
        return Opaque(fixed=True, name=last)
    return Opaque(taints=base | request_taints(given, made.span), name=_result_name(last))


def _result_name(function: str) -> str:
    """What the result is called until it has a name; a call's own name ends in parentheses."""
    return "summary" if is_summary(function) else f"{function}()"


def _special_method(last: str, owner: str, base: Taints, made: Call) -> Value | None:
    if last in METHODS:
        return source_call(METHODS[last], made)
    if last == "strftime" and not base and made.arguments:
        form = known_string(made.arguments[0]) or ""
        return Opaque(taints=made.taint(Kind.LOCALE) if is_locale_date(form) else CLEAN)
    if last in RANDOM_METHODS and owner.rpartition(".")[2] in ("rng", "_rng", "rand", "random"):
        return Opaque(taints=made.taint(RANDOM_METHODS[last]))
    if last == "now" and not base:
        return Opaque(taints=made.taint(Kind.CLOCK, sure=False))
    if last in ORDERED_MAKERS or owner.rpartition(".")[2] in ORDERED_MAKERS:
        is_schema = "schema" in last
        return Opaque(fixed=True) if is_schema else Entries((("", Opaque(taints=base)),))
    if last in ("from_string", "get_template", "select_template") and made.arguments:
        source = made.arguments[0] if last == "from_string" else UNKNOWN
        return PromptTemplate("jinja", as_text(source) if last == "from_string" else source)
    if last in ("read_text", "read", "readlines", "read_bytes") and not base:
        return Opaque(fixed=is_scaffold(owner) or owner.endswith("f") or not owner, name="file")
    return None


def _carried(taints: Taints, made: Call) -> Value:
    return Opaque(taints=taints, fixed=not taints and bool(made.arguments) and _all_fixed(made))


def _all_fixed(made: Call) -> bool:
    return all(is_fixed(v) for v in (*made.arguments, *(v for _, v in made.keywords)))
