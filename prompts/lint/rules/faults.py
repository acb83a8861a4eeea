"""FW9xx: faults of a template, of its names and of suppressions."""

from collections.abc import Iterator

from prompts.lint.context import LintContext
from prompts.lint.findings import Finding, Severity
from prompts.lint.pieces import Reference
from prompts.lint.prompt_source import PromptSource
from prompts.lint.rule import Rule, Subject
from prompts.lint.vocabulary import kind_of_call


class SyntaxFault(Rule):
    """The file can't be read: not UTF-8, not valid YAML, Jinja, Python or JSON, or not a template.

    ## What it does
    Reports where reading failed and what is wrong there.

    ## Why it costs
    What can't be read can't be checked, or served.

    ## Example
    ```jinja
    You are a helpful assistant. {{ question
    ```

    ## Use instead
    ```jinja
    You are a helpful assistant. {{ question }}
    ```

    ## Fix safety
    No fix.

    ## References
    `docs/templates.md` describes the template format.
    """

    code = "FW901"
    name = "syntax-error"
    severity = Severity.ERROR
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON)


class UndeclaredVariable(Rule):
    """A template uses a variable that it doesn't declare.

    ## What it does
    Finds names in segments that aren't under `variables`.

    ## Why it costs
    Without a declaration nobody knows how often the value changes, nor how it is spelled.

    ## Example
    ```yaml
    name: greeting
    version: 1
    segments:
      - {id: question, role: user, volatility: turn, text: "{{ question }}"}
    ```

    ## Use instead
    ```yaml
    name: greeting
    version: 1
    variables:
      question: {type: text, volatility: turn}
    segments:
      - {id: question, role: user, volatility: turn, text: "{{ question }}"}
    ```

    ## Fix safety
    No fix: only you know the type and the volatility.

    ## References
    `docs/templates.md`
    """

    code = "FW902"
    name = "undeclared-variable"
    severity = Severity.ERROR
    subjects = (Subject.TEMPLATE,)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        if prompt.template is None:
            return
        for segment, part in zip(prompt.template.segments, prompt.parts, strict=True):
            called = {call.dotted for call in part.facts.calls}
            for name in segment.uses:
                if name not in prompt.template.variables and name not in called:
                    start = max(part.text.find(name), 0)
                    yield self.finding(
                        message=f"{name} is used but not declared; declare it under variables, or "
                        "correct its spelling.",
                        place=part.locator.place(start, start + len(name)),
                    )


class UnusedSuppression(Rule):
    """A suppression that suppresses nothing.

    ## What it does
    Finds `foreword: ignore[…]` comments for which there is no finding, or that name no rule.

    ## Why it costs
    It hides the next fault of that kind on its line.

    ## Example
    ```jinja
    {# foreword: ignore[FW102] the date is fixed by the operator #}
    You are a helpful assistant.
    {{ question }}
    ```

    ## Use instead
    ```jinja
    You are a helpful assistant.
    {{ question }}
    ```

    ## Fix safety
    No fix.

    ## References
    `docs/lint.md`
    """

    code = "FW903"
    name = "unused-suppression"
    severity = Severity.WARNING
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON)


class SuppressionWithoutReason(Rule):
    """A suppression that doesn't say why.

    ## What it does
    Finds `foreword: ignore[…]` comments without a reason behind the bracket.

    ## Why it costs
    Nobody can tell later whether it is still right.

    ## Example
    ```jinja
    {# foreword: ignore[FW102] #}
    Today is {{ now() }}.
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    ```

    ## Use instead
    ```jinja
    {# foreword: ignore[FW102] a demo that is asked once a day #}
    Today is {{ now() }}.
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    ```

    ## Fix safety
    No fix.

    ## References
    `docs/lint.md`
    """

    code = "FW904"
    name = "suppression-without-reason"
    severity = Severity.WARNING
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON)


class UnusedVariable(Rule):
    """A template declares a variable that it doesn't use.

    ## What it does
    Finds declared variables that no segment uses.

    ## Why it costs
    Callers have to give a value that changes nothing.

    ## Example
    ```yaml
    name: greeting
    version: 1
    variables:
      question: {type: text, volatility: turn}
      tone: {type: text, volatility: static}
    segments:
      - {id: question, role: user, volatility: turn, text: "{{ question }}"}
    ```

    ## Use instead
    ```yaml
    name: greeting
    version: 1
    variables:
      question: {type: text, volatility: turn}
    segments:
      - {id: question, role: user, volatility: turn, text: "{{ question }}"}
    ```

    ## Fix safety
    No fix: a caller may give it.

    ## References
    `docs/templates.md`
    """

    code = "FW905"
    name = "unused-variable"
    severity = Severity.NOTE
    subjects = (Subject.TEMPLATE,)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        if prompt.template is None:
            return
        used = {name for segment in prompt.template.segments for name in segment.uses}
        used |= {segment.messages for segment in prompt.template.segments if segment.messages}
        for name, variable in prompt.template.variables.items():
            if name not in used and name != prompt.template.tools:
                yield self.finding(
                    message=f"{name} is declared but not used; delete it, or use it.",
                    place=prompt.source.line_place(variable.line, variable.column - 1),
                )


class IncludeNotFound(Rule):
    """A file that a prompt includes, imports or extends isn't there.

    ## What it does
    Looks for `{% include "…" %}`, `import` and `extends` beside the file and in the folders above.
    Foreword's own templates are one file each: there every include is a fault.

    ## Why it costs
    Rendering fails, or the loader of another machine finds another file.

    ## Example
    ```jinja
    {% include "no-such-rules.j2" %}
    {{ question }}
    ```

    ## Use instead
    ```jinja
    {% include "no-such-rules.j2" ignore missing %}
    {{ question }}
    ```

    ## Fix safety
    No fix.

    ## References
    Jinja's loaders look in their search path, which the linter can't see: it looks in all folders
    above the file.
    """

    code = "FW906"
    name = "include-not-found"
    severity = Severity.ERROR
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part in prompt.parts:
            for found in part.facts.references:
                problem = _missing(prompt, context, found)
                if problem:
                    yield self.finding(message=problem, place=part.tag_place(found.offset))


def _missing(prompt: PromptSource, context: LintContext, found: Reference) -> str | None:
    if prompt.template is not None:
        return "A template is one file; write the other file's text here."
    if found.name is None or found.optional:
        return None
    if context.included(prompt.source.path, found.name) is not None:
        return None
    return f"{found.name} isn't in this folder or one above it; correct the path."


class DuplicateReference(Rule):
    """Two files define the same template and version.

    ## What it does
    Finds files whose `name` and `version` are those of another file.

    ## Why it costs
    Which of the two is served depends on the order of files; the lock file can only hold one.

    ## Example
    ```yaml
    # file: docqa.yaml
    name: docqa
    version: 1
    segments:
      - {id: rules, role: system, volatility: static, text: "Answer briefly."}
    # file: docqa-new.yaml
    name: docqa
    version: 1
    segments:
      - {id: rules, role: system, volatility: static, text: "Answer in one sentence."}
    ```

    ## Use instead
    ```yaml
    # file: docqa.yaml
    name: docqa
    version: 1
    segments:
      - {id: rules, role: system, volatility: static, text: "Answer briefly."}
    # file: docqa-new.yaml
    name: docqa
    version: 2
    segments:
      - {id: rules, role: system, volatility: static, text: "Answer in one sentence."}
    ```

    ## Fix safety
    No fix.

    ## References
    `docs/lock.md`
    """

    code = "FW907"
    name = "duplicate-reference"
    severity = Severity.ERROR
    subjects = (Subject.TEMPLATE,)


class NondeterministicCall(Rule):
    """A template calls something that isn't a function of its inputs.

    ## What it does
    Finds calls of the clock, of randomness and of the environment in Foreword's templates, wherever
    they stand. The gateway refuses such templates.

    ## Why it costs
    The same inputs have to give the same bytes: otherwise nothing that is measured, locked or
    cached means anything.

    ## Example
    ```yaml
    name: dated
    version: 1
    variables:
      question: {type: text, volatility: turn}
    segments:
      - {id: question, role: user, volatility: turn, text: "{{ question }} ({{ now() }})"}
    ```

    ## Use instead
    ```yaml
    name: dated
    version: 1
    variables:
      question: {type: text, volatility: turn}
      day: {type: date, volatility: turn}
    segments:
      - {id: question, role: user, volatility: turn, text: "{{ question }} ({{ day }})"}
    ```

    ## Fix safety
    No fix: declare a variable, and let the caller give its value.

    ## References
    `docs/templates.md`
    """

    code = "FW908"
    name = "nondeterministic-call"
    severity = Severity.ERROR
    subjects = (Subject.TEMPLATE,)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        if prompt.template is None:
            return
        for part in prompt.parts:
            for offset in [
                *(c.node.lineno for c in part.facts.calls if kind_of_call(c.dotted)),
                *(
                    f.node.lineno
                    for f in part.facts.filters
                    if f.node.name in ("random", "shuffle")
                ),
            ]:
                yield self.finding(
                    message=f"{part.tag_label(offset)} isn't a function of the template's inputs; "
                    "declare a variable and give it the value.",
                    place=part.tag_place(offset),
                )


RULES: tuple[type[Rule], ...] = (
    SyntaxFault,
    UndeclaredVariable,
    UnusedSuppression,
    SuppressionWithoutReason,
    UnusedVariable,
    IncludeNotFound,
    DuplicateReference,
    NondeterministicCall,
)
