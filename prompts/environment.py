"""The one Jinja environment of template files: strict, sandboxed, and deaf to the world outside.

Neither the clock, randomness, the environment nor the locale can be reached from it: Jinja's
globals are removed and only filters and tests that are functions of their input are kept.
"""

import jinja2
import jinja2.sandbox

from prompts.canonical import canonical_json

_FILTERS = (
    "abs", "batch", "capitalize", "default", "first", "float", "indent", "int", "join", "last",
    "length", "list", "lower", "replace", "reverse", "round", "slice", "string", "sum", "title",
    "trim", "upper", "wordcount",
)  # fmt: skip
_TESTS = (
    "boolean", "defined", "divisibleby", "eq", "even", "false", "ge", "gt", "in", "integer",
    "iterable", "le", "lt", "mapping", "ne", "none", "number", "odd", "sequence", "string",
    "true", "undefined",
)  # fmt: skip


def template_environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    """A fresh environment; undefined names are errors and no byte of the text is trimmed."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        newline_sequence="\n",
        keep_trailing_newline=True,
        autoescape=False,
        optimized=True,
    )
    environment.globals.clear()
    environment.globals["range"] = jinja2.sandbox.safe_range
    environment.filters = {name: environment.filters[name] for name in _FILTERS}
    environment.filters["json"] = canonical_json
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    return environment
