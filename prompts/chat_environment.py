"""The Jinja environment of chat templates: transformers' own, taught to keep track of contents.

Source: transformers 5.24 utils/chat_template_utils.py `_compile_jinja_template`.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn

import jinja2
import jinja2.compiler
import jinja2.ext
import jinja2.filters
import jinja2.nodes
import jinja2.parser
import jinja2.runtime
import jinja2.sandbox
import jinja2.utils
from jinja2.tests import test_iterable, test_sequence

from prompts.chat_rope import Rope, SafeRope, concatenate, join, origin_within, spell
from prompts.chat_watch import Watched, lose_within
from prompts.errors import ChatTemplateError

# Filters that make new text in ways that can't be followed.
_OPAQUE = (
    "center", "e", "escape", "filesizeformat", "forceescape", "format", "pprint", "random",
    "striptags", "truncate", "urlencode", "urlize", "wordwrap", "xmlattr",
)  # fmt: skip

# Filters and tests that learn of a content only what it notes itself (see `Watched`).
_FOLLOWED_FILTERS = frozenset(
    (
        *("count", "d", "default", "first", "items", "join", "last", "length", "list", "map"),
        *("reject", "rejectattr", "reverse", "select", "selectattr", "string", "trim"),
    )
)
_FOLLOWED_TESTS = frozenset(
    (
        *("!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "in"),
        *("le", "lessthan", "lt", "ne", "boolean", "callable", "defined", "false", "float"),
        *("integer", "iterable", "mapping", "none", "number", "sequence", "string", "true"),
        "undefined",
    )
)

# Jinja passes all variables of a loop or block to each call, for those that want its context.
_JINJA_KEYWORDS = ("_loop_vars", "_block_vars")


class ChatEnvironment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Renders chat templates; a `Rope` that goes in comes out as one."""

    intercepted_binops = frozenset({"%"})
    concat = staticmethod(concatenate)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, jinja2.ext.loopcontrols],
            finalize=spell,
        )
        self.code_generator_class = _CodeGenerator
        self.filters.update({name: _guarded(name, self.filters[name]) for name in _OPAQUE})
        self.filters |= {
            "indent": _indent,
            "join": _join,
            "replace": _replace,
            "safe": _safe,
            "string": spell,
            "title": _title,
            "tojson": _tojson,
        }
        self.tests |= {
            "in": self.contains,
            "iterable": lambda value: isinstance(value, str) or test_iterable(value),
            "sequence": lambda value: isinstance(value, str) or test_sequence(value),
        }
        self.filters |= _losing(self.filters, _FOLLOWED_FILTERS)
        self.tests |= _losing(self.tests, _FOLLOWED_TESTS)
        self.follows = True
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _no_clock

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`obj.attribute`; the fields of messages and tools without the sandbox's detours."""
        if type(obj) is dict and attribute in obj and not hasattr(dict, attribute):
            return obj[attribute]
        if isinstance(obj, Rope) and not hasattr(str, attribute):
            return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def call(self, context: jinja2.runtime.Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call from a template; methods of its own texts keep track of contents given to them."""
        if not isinstance(obj, jinja2.runtime.Macro) and obj is not jinja2.utils.Namespace:
            given = [value for name, value in kwargs.items() if name not in _JINJA_KEYWORDS]
            lose_within(args, given)
        owner = getattr(obj, "__self__", None)
        if type(owner) is str and origin_within(args) is not None:
            obj = getattr(Rope.of(owner), obj.__name__)
        return super().call(context, obj, *args, **kwargs)

    def contains(self, item: Any, container: Any) -> bool:
        """`item in container`; a plain text that looks for a content in itself doesn't tell it."""
        if isinstance(container, str) and not isinstance(container, Watched):
            lose_within(item)
        return item in container

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`"…".format(…)`: with contents in it, it would lose track of them."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def guarded(*args: Any, **kwargs: Any) -> str:
            lose_within(args, kwargs)
            if origin_within((args, kwargs)) is not None:
                raise ChatTemplateError("it formats the text of messages")
            return wrapped(*args, **kwargs)

        return guarded

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any
    ) -> Any:
        """`%`: with contents on either side it would lose track of them."""
        lose_within(left, right)
        if origin_within((left, right)) is not None:
            raise ChatTemplateError("it formats the text of messages with %")
        return super().call_binop(context, operator, left, right)


class ToolObject(dict[Any, Any]):
    """A tool as templates see it; how `tojson` spells it is kept, since most print it whole."""

    __slots__ = ("spellings",)

    def __init__(self, value: dict[Any, Any]) -> None:
        super().__init__(value)
        self.spellings: dict[object, str] = {}


class _CodeGenerator(jinja2.compiler.CodeGenerator):
    """`a ~ b` goes through the environment's `concat`, `a in b` through its `contains`."""

    environment: ChatEnvironment

    def visit_Concat(self, node: jinja2.nodes.Concat, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        self.write("environment.concat((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Compare(self, node: jinja2.nodes.Compare, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        operand = node.ops[0]
        if not any(each.op in ("in", "notin") for each in node.ops):
            super().visit_Compare(node, frame)
        elif len(node.ops) > 1:
            self.environment.follows = False
            super().visit_Compare(node, frame)
        else:
            self.write(f"({'not ' * (operand.op == 'notin')}environment.contains(")
            self.visit(node.expr, frame)
            self.write(", ")
            self.visit(operand.expr, frame)
            self.write("))")


class _Generation(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}` marks training text; served, it is its body."""

    tags = {"generation"}  # noqa: RUF012 (Jinja declares it as a plain set)

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _losing(
    functions: Mapping[str, Any], followed: Collection[str]
) -> dict[str, Callable[..., Any]]:
    """The functions that are not followed, so that a content given to them notes it."""

    def losing(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            lose_within(args, kwargs)
            return function(*args, **kwargs)

        noted.__dict__.update(getattr(function, "__dict__", {}))
        return noted

    return {name: losing(each) for name, each in functions.items() if name not in followed}


def _guarded(name: str, filter_: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, refusing contents. What Jinja passes to it (`pass_context` …) stays as it was."""

    def guarded(*args: Any, **kwargs: Any) -> Any:
        given = [a for a in args if not isinstance(a, jinja2.Environment | jinja2.runtime.Context)]
        if origin_within(given) is not None or origin_within(kwargs) is not None:
            raise ChatTemplateError(f"it uses the filter {name!r} on the text of messages")
        return filter_(*args, **kwargs)

    guarded.__dict__.update(getattr(filter_, "__dict__", {}))
    return guarded


def _join(value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    items = list(value)
    if attribute is not None:
        get = jinja2.filters.make_attrgetter(jinja2.Environment(), attribute)
        items = [get(item) for item in items]
    parts: list[object] = []
    for index, item in enumerate(items):
        parts += [d, item] if index else [item]
    return concatenate(parts)


def _replace(value: object, old: str, new: str, count: int | None = None) -> str:
    text = spell(value)
    if not isinstance(text, Rope) and isinstance(new, Rope):
        text = Rope.of(text)
    return text.replace(old, new, -1 if count is None else count)


def _safe(value: object) -> str:
    text = spell(value)
    return SafeRope.build(text, text.parts) if isinstance(text, Rope) else SafeRope.of(text)


def _title(value: object) -> str:
    text = spell(value)
    titled = jinja2.filters.do_title(str.__str__(text))
    return text.blurred(titled) if isinstance(text, Rope) else titled


def _indent(value: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Source: jinja2 3.1.6 filters.py `do_indent`."""
    if not isinstance(value, Rope):
        return jinja2.filters.do_indent(value, width, first, blank)
    margin = width if isinstance(width, str) else " " * width
    lines = (value + "\n").splitlines()
    rest = [line if not (line or blank) else join((margin, line)) for line in lines[1:]]
    text = join([lines[0], *rest], "\n")
    return join((margin, text)) if first else text


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON of a value; where a content is in it, nothing of the text is the template's own."""
    key = (ensure_ascii, indent, separators and tuple(separators), sort_keys)
    if isinstance(value, ToolObject) and (spelled := value.spellings.get(key)):
        return spelled
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    origin = origin_within(value)
    spelled = text if origin is None else Rope.of(text, origin)
    if isinstance(value, ToolObject):
        value.spellings[key] = spelled
    return spelled


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _no_clock(_format: str) -> NoReturn:
    raise jinja2.TemplateError("it puts today's date into the prompt (strftime_now)")
