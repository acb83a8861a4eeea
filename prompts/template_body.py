"""A segment's Jinja text: compiled, and refused where it isn't a function of declared variables."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import jinja2
import jinja2.meta
import jinja2.nodes as nodes

from prompts.canonical import canonical_text
from prompts.environment import METHODS, TemplateEnvironment
from prompts.invisible import InvisibleKind, find_invisible

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_CLOCK = "it reads the clock: declare a date variable and give it the day, in the last segment"
_CHANCE = "it draws lots: declare a variable for what it makes and give it to a late segment"
_WORLD = "it reads the machine it runs on: declare a variable and give it the value"
_LOCALE = "it depends on the locale: declare a number or date variable with a format"
_CAUSES = {
    _CLOCK: (
        "current_date", "current_datetime", "current_time", "date", "datetime", "isoformat", "now",
        "strftime", "strftime_now", "time", "timestamp", "today", "utcnow",
    ),
    _CHANCE: (
        "choice", "choices", "randint", "random", "sample", "shuffle", "token_hex", "uuid", "uuid1",
        "uuid4",
    ),
    _WORLD: ("cwd", "env", "environ", "getcwd", "getenv", "gethostname", "hostname", "listdir"),
    _LOCALE: ("format", "format_currency", "format_date", "format_number"),
}  # fmt: skip
_CAUSE_OF = {name: cause for cause, names in _CAUSES.items() for name in names}
_OWN_CALLS = frozenset({"caller", "loop", "namespace", "range", "super"})


class BodyError(Exception):
    """What is wrong with a segment's text, at which character of it."""

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(offset, problem)
        self.offset = offset
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A parsed text: the context variables it uses, each with the character it is first used at."""

    tree: nodes.Template
    uses: dict[str, int]

    @property
    def literal(self) -> str | None:
        """The text, where nothing in it is Jinja's."""
        outputs = [node for node in self.tree.body if isinstance(node, nodes.Output)]
        parts = [part for output in outputs for part in output.nodes]
        if len(outputs) < len(self.tree.body):
            return None
        if all(isinstance(part, nodes.TemplateData) for part in parts):
            return "".join(part.data for part in parts if isinstance(part, nodes.TemplateData))
        return None


def parse_body(environment: TemplateEnvironment, source: str, *, checked: bool = True) -> Body:
    """The syntax tree of a text's canonical form.

    Unless `checked`, unknown filters are let pass, and a name that is set anywhere in the text is
    taken for set everywhere.

    Raises:
        BodyError: it isn't valid Jinja.
    """
    try:
        tree = environment.parse(canonical_text(source))
        names = jinja2.meta.find_undeclared_variables(tree) if checked else _free_names(tree)
    except jinja2.TemplateSyntaxError as error:
        raise _syntax(source, error) from error
    except ValueError as error:
        raise BodyError(0, f"the text {error}") from error
    except RecursionError as error:
        raise BodyError(0, "the text is nested too deep") from error
    return Body(tree=tree, uses={name: _first_use(source, tree, name) for name in sorted(names)})


def _free_names(tree: nodes.Template) -> set[str]:
    names = list(tree.find_all(nodes.Name))
    bound = {name.name for name in names if name.ctx != "load"}
    bound |= {macro.name for macro in tree.find_all(nodes.Macro)} | _OWN_CALLS
    return {name.name for name in names} - bound


def compile_body(environment: TemplateEnvironment, body: Body) -> jinja2.Template:
    """The text's code.

    Raises:
        BodyError: loops or branches are nested deeper than Python allows.
    """
    try:
        return environment.from_string(body.tree)
    except (SyntaxError, RecursionError) as error:
        raise BodyError(0, "the text is nested too deep") from error


def check_body(
    source: str, body: Body, declared: Collection[str], allow: Collection[InvisibleKind]
) -> None:
    """Whether a text depends on nothing but declared variables and shows what it holds.

    Raises:
        BodyError: the first thing that is wrong.
    """
    for found in find_invisible(source):
        if found.kind not in allow:
            raise BodyError(
                found.offset,
                f"an invisible character, {found.escape}: take it out, or write "
                f"`allow: [{found.kind}]` in the segment if it is meant",
            )
    for offset, problem in (*_impurities(source, body), *_undeclared(body, declared)):
        raise BodyError(offset, problem)


def _undeclared(body: Body, declared: Collection[str]) -> Iterator[tuple[int, str]]:
    for name, offset in body.uses.items():
        if name not in declared:
            cause = _CAUSE_OF.get(name)
            reason = f"; {cause}" if cause else ": declare it, or correct its spelling"
            yield offset, f"{name!r} is used but not declared under variables{reason}"


def _impurities(source: str, body: Body) -> Iterator[tuple[int, str]]:
    """Calls of what isn't a function of its input, and other files."""
    macros = {macro.name for macro in body.tree.find_all(nodes.Macro)}
    own = (
        macros
        | _OWN_CALLS
        | {name.name for name in body.tree.find_all(nodes.Name) if name.ctx == "store"}
    )
    for call in body.tree.find_all(nodes.Call):
        match call.node:
            case nodes.Name(name=name) if name not in own:
                yield _offset(source, call.lineno, name), _no_call(f"{name}()", name)
            case nodes.Getattr(attr=name) if name not in METHODS:
                yield _offset(source, call.lineno, name), _no_call(f".{name}()", name)
            case nodes.Getitem():
                yield _offset(source, call.lineno, ""), "what is looked up by [ ] can't be called"
    for kind, word in (
        (nodes.Include, "include"), (nodes.Import, "import"), (nodes.FromImport, "from"),
        (nodes.Extends, "extends"),
    ):  # fmt: skip
        for node in body.tree.find_all(kind):
            problem = f"`{{% {word} %}}`: a template is one file, so write that text here"
            yield _offset(source, node.lineno, word), problem


def _no_call(shown: str, name: str) -> str:
    cause = _CAUSE_OF.get(name, "only macros of this text, range() and methods of values can be")
    return f"`{shown}` can't be called here; {cause}"


def _syntax(source: str, error: jinja2.TemplateSyntaxError) -> BodyError:
    message = error.message or "not valid Jinja"
    named = re.match(r"No (filter|test) named '(\w+)'", message)
    if named is None:
        return BodyError(_offset(source, error.lineno, ""), f"Jinja: {message}")
    kind, name = named.groups()
    cause = _CAUSE_OF.get(name)
    problem = f"no {kind} is called {name!r} here"
    offset = _offset(source, error.lineno, name)
    return BodyError(
        offset, f"{problem}; {cause}" if cause else f"{problem}, see docs/templates.md"
    )


def _first_use(source: str, tree: nodes.Template, name: str) -> int:
    lines = [node.lineno for node in tree.find_all(nodes.Name) if node.name == name]
    return _offset(source, min(lines, default=1), name)


def _offset(source: str, line: int, word: str) -> int:
    """Where a word stands inside a tag on a line, or the first tag there, or the line's start.

    Jinja's nodes know their line only.
    """
    start = 0
    for _ in range(line - 1):
        start = source.find("\n", start) + 1
    end = source.find("\n", start)
    end = len(source) if end < 0 else end
    tags = [tag for tag in _TAG.finditer(source) if tag.end() > start and tag.start() <= end]
    for tag in tags:
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)" if word else "")
        found = pattern.search(source, max(tag.start(), start), tag.end())
        if found:
            return found.start()
    opened = re.compile(r"\{[{%]").search(source, start, end)
    return opened.start() if opened else start
