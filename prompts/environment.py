"""The one Jinja environment of template files: strict, sandboxed, and deaf to the world outside.

Neither the clock, randomness, the environment nor the locale can be reached from it: Jinja's
globals are removed and only filters, tests and methods that are functions of their input are kept.
What has no spelling of its own (an object, a method, a generator) can't get into the text.
"""

import functools
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import jinja2
import jinja2.compiler
import jinja2.nodes as nodes
import jinja2.runtime
import jinja2.sandbox
import jinja2.utils

from prompts.canonical import canonical_json, spell_number

_FILTERS = (
    "abs", "capitalize", "center", "count", "default", "d", "dictsort", "first", "float", "format",
    "groupby", "indent", "int", "join", "last", "length", "list", "lower", "max", "min", "replace",
    "round", "sort", "string", "sum", "title", "trim", "truncate", "upper", "wordcount",
    "wordwrap",
)  # fmt: skip
# Lazy in Jinja: printed before they are used up, they would print a memory address.
_LAZY_FILTERS = (
    "batch", "items", "map", "reject", "rejectattr", "reverse", "select", "selectattr", "slice",
    "unique",
)  # fmt: skip
_TESTS = (
    "boolean", "defined", "divisibleby", "eq", "equalto", "even", "false", "float", "ge", "gt",
    "in", "integer", "iterable", "le", "lower", "lt", "mapping", "ne", "none", "number", "odd",
    "sequence", "string", "true", "undefined", "upper",
)  # fmt: skip
METHODS = frozenset({
    # of text; not `format`, which knows the locale
    "capitalize", "casefold", "center", "count", "endswith", "find", "index", "isalnum", "isalpha",
    "isdecimal", "isdigit", "islower", "isspace", "istitle", "isupper", "join", "ljust", "lower",
    "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rjust",
    "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase",
    "title", "upper", "zfill",
    # of mappings, in the order of their keys
    "get", "items", "keys", "values",
    # of a loop
    "changed", "cycle",
})  # fmt: skip
"""Methods that a template may call: functions of their input, in any process."""

RENDER_ERRORS = (
    jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
"""What the code of a template may raise, given values that it doesn't expect."""


class _MethodCalls(jinja2.compiler.CodeGenerator):
    """Tells `x.items()` from `x.items`: only the first is about the method."""

    def visit_Call(  # noqa: N802 (Jinja's name)
        self, node: nodes.Call, frame: jinja2.compiler.Frame, forward_caller: bool = False
    ) -> None:
        """As Jinja, with `()` kept behind the name that is looked up."""
        target = node.node
        if isinstance(target, nodes.Getattr):
            node.node = nodes.Getattr(target.node, f"{target.attr}()", target.ctx)
        super().visit_Call(node, frame, forward_caller=forward_caller)
        node.node = target


class TemplateEnvironment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which a method can be called but not printed."""

    code_generator_class = _MethodCalls

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A mapping's own key wins over a method of the same name, unless it is called."""
        if attribute.endswith("()"):
            return _callable_only(super().getattr(obj, attribute.removesuffix("()")))
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return _callable_only(super().getattr(obj, attribute))

    def getitem(self, obj: Any, argument: Any) -> Any:
        """As `getattr`, by index or key."""
        return _callable_only(super().getitem(obj, argument))


def template_environment() -> TemplateEnvironment:
    """A fresh environment; undefined names are errors and no byte of the text is trimmed."""
    environment = TemplateEnvironment(
        undefined=jinja2.StrictUndefined,
        newline_sequence="\n",
        keep_trailing_newline=True,
        autoescape=False,
        optimized=True,
        finalize=_printed,
    )
    environment.globals.clear()
    environment.globals.update(TEMPLATE_GLOBALS)
    filters = environment.filters
    environment.filters = {
        **{name: filters[name] for name in _FILTERS},
        **{name: _eager(filters[name]) for name in _LAZY_FILTERS},
        "json": canonical_json,
        "tojson": canonical_json,
    }
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    return environment


class _Function:
    """A function or method on its way to being called: its memory address can't be printed."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)

    def __repr__(self) -> str:
        raise self.misuse()

    def misuse(self) -> ValueError:
        """What to say when it is printed after all."""
        return ValueError("a function is printed, not called: write () behind it")


TEMPLATE_GLOBALS: Mapping[str, Any] = MappingProxyType(
    {
        "range": _Function(jinja2.sandbox.safe_range),
        "namespace": _Function(jinja2.utils.Namespace),
    }
)
"""What a template may call beside methods and its own macros."""


def _callable_only(value: Any) -> Any:
    if isinstance(value, jinja2.Undefined) or not callable(value):
        return value
    return _Function(value)


def _printed(value: Any) -> Any:
    """What `{{ value }}` puts into the text: text and numbers have one spelling, others don't."""
    match value:
        case str() | jinja2.Undefined():
            return value
        case bool() | None:
            raise ValueError(
                f"{value} is printed: write {{% if … %}}, or |json to print JSON's word"
            )
        case int() | float() | Decimal():
            return spell_number(value)
        case list() | tuple() | Mapping():
            raise ValueError("a list or mapping is printed: loop over it, or add |json")
        case _Function():
            raise value.misuse()
    raise ValueError(f"a {type(value).__name__} is printed, which has no fixed spelling")


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def filtered(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        return result if isinstance(result, str) else list(result)

    return filtered
