"""FW204, FW209: mappings and collections sent in whatever order they have."""

import re
from collections.abc import Iterator

import jinja2.nodes as n

from prompts.lint.context import LintContext
from prompts.lint.findings import Confidence, Finding, Fix, FixSafety, Severity
from prompts.lint.part import Part
from prompts.lint.pieces import Call
from prompts.lint.prompt_source import PromptSource
from prompts.lint.rule import Rule, Subject
from prompts.lint.vocabulary import Kind

_SORTING = frozenset({"sort", "dictsort", "length", "count", "sum", "min", "max", "sorted"})


class UnorderedMapping(Rule):
    """A mapping is put into the prompt in whatever order its keys have.

    ## What it does
    Finds loops over `.items()`, `.keys()` or `.values()`, and such lists sent as they are, without
    a sort around them. In Foreword's own templates mappings come in a canonical order: there is
    nothing to find.

    ## Why it costs
    A mapping keeps the order in which somebody filled it. Two callers, two versions of a service or
    a database give the same content in another order, and the prefix ends at the first key.

    ## Example
    ```jinja
    {% for key, value in settings.items() %}{{ key }}: {{ value }}
    {% endfor %}
    ```

    ## Use instead
    ```jinja
    {% for key, value in settings | dictsort %}{{ key }}: {{ value }}
    {% endfor %}
    ```

    ## Fix safety
    Unsafe: `| dictsort` changes the order, once.

    ## References
    Lakr233/FlowDown#273, sgl-project/sglang#34553: keys that change places cost the prefix.
    """

    code = "FW204"
    name = "unordered-mapping"
    severity = Severity.WARNING
    confidence = Confidence.SUSPECTED
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        if prompt.template is not None:
            return
        for part in prompt.parts:
            for call in part.facts.calls:
                method = _mapping_method(call)
                if method and not call.nature.constant and not _SORTING & set(call.around):
                    yield self._report(part, call.node.lineno, method, call)
            for found in part.facts.filters:
                if found.node.name == "items" and not _SORTING & set(found.around):
                    yield self._report(part, found.node.lineno, "items", None)

    def _report(self, part: Part, offset: int, method: str, call: Call | None) -> Finding:
        return self.finding(
            message=f"{part.tag_label(offset)} sends a mapping in the order in which its keys were "
            "set, which differs between callers; sort it (`| dictsort`).",
            place=part.tag_place(offset),
            fix=_dictsort(part, call) if call is not None and method == "items" else None,
        )


def _mapping_method(call: Call) -> str | None:
    node = call.node
    if node.args or node.kwargs or not isinstance(node.node, n.Getattr):
        return None
    return node.node.attr if node.node.attr in ("items", "keys", "values") else None


def _dictsort(part: Part, call: Call) -> Fix | None:
    """`.items()` becomes `| dictsort`, where that is written plainly."""
    assert isinstance(call.node.node, n.Getattr)
    start = call.node.node.lineno
    written = re.compile(r"\.items\(\s*\)").match(part.text, start)
    edit = part.locator.edit(start, written.end(), " | dictsort") if written else None
    if edit is None:
        return None
    return Fix(safety=FixSafety.UNSAFE, description="sort the mapping's keys", edits=(edit,))


class UnorderedCollection(Rule):
    """A set, a folder's listing or a shuffled list is put into the prompt in its own order.

    ## What it does
    Finds sets, `listdir`, `glob` and `| shuffle` without a sort around them.

    ## Why it costs
    A set's order changes with every process, a folder's with every machine: the prefix ends at the
    first element.

    ## Example
    ```jinja
    {% for tag in set(tags) %}{{ tag }} {% endfor %}
    ```

    ## Use instead
    ```jinja
    {% for tag in set(tags) | sort %}{{ tag }} {% endfor %}
    ```

    ## Fix safety
    In Python `sorted(…)` is unsafe: it changes the order, once. In Jinja there is no fix.

    ## References
    Python's `PYTHONHASHSEED` decides about the order of sets of strings.
    """

    code = "FW209"
    name = "unordered-collection"
    severity = Severity.ERROR
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part in prompt.parts:
            for call in part.facts.calls:
                last = call.dotted.rpartition(".")[2]
                if _unordered_call(last, call) and not _SORTING & set(call.around):
                    yield self._report(part, call.node.lineno)
            for found in part.facts.filters:
                if found.node.name == "shuffle" and Kind.CONTEXT in found.nature.kinds:
                    continue  # FW502 says so of documents
                unordered = found.node.name in ("set", "shuffle") and not found.nature.constant
                if unordered and not (_SORTING | {"random"}) & set(found.around):
                    yield self._report(part, found.node.lineno)

    def _report(self, part: Part, offset: int) -> Finding:
        return self.finding(
            message=f"{part.tag_label(offset)} has no fixed order; sort it.",
            place=part.tag_place(offset),
        )


def _unordered_call(name: str, call: Call) -> bool:
    if name in ("set", "frozenset"):
        return not call.nature.constant
    return name in ("listdir", "scandir", "iterdir", "glob", "iglob", "rglob", "fileglob")


RULES: tuple[type[Rule], ...] = (UnorderedMapping, UnorderedCollection)
