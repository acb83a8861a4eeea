"""FW1xx: text that changes often stands before text that doesn't."""

from dataclasses import replace

from prompts.lint.breaks import Break
from prompts.lint.context import LintContext
from prompts.lint.findings import Finding, FixSafety, Severity
from prompts.lint.prompt_source import PromptSource
from prompts.lint.rule import Rule, Subject
from prompts.lint.rules.break_rule import BreakRule
from prompts.lint.vocabulary import Kind


class VolatileBeforeStatic(BreakRule):
    """A value that changes often stands before text that doesn't change.

    ## What it does
    Finds values in front of text that is the same in every request: by declared volatility in
    templates, by what names say (`question`, `history`) in other prompt files.

    ## Why it costs
    The engine re-uses a prompt's KV up to the first token that differs. All that follows the value
    is prefilled again each time the value changes, although it is the same text.

    ## Example
    ```yaml
    name: reviewer
    version: 1
    variables:
      code: {type: text, volatility: turn}
    segments:
      - {id: code, role: system, volatility: turn, text: "Code: {{ code }}"}
      - id: rules
        role: system
        volatility: static
        text: "Review it. Name each fault and its line. Be brief."
    ```

    ## Use instead
    ```yaml
    name: reviewer
    version: 1
    variables:
      code: {type: text, volatility: turn}
    segments:
      - id: rules
        role: system
        volatility: static
        text: "Review the code below. Name each fault and its line. Be brief."
      - {id: code, role: user, volatility: turn, text: "Code: {{ code }}"}
    ```

    ## Fix safety
    Unsafe, in templates: the segments of the message that change more often are moved behind the
    others, byte for byte, if that is enough. The model reads them in another order, and text that
    had a line end between it may have none now. Elsewhere no fix.

    ## References
    SGLang's RadixAttention matches from the first token on: <https://arxiv.org/abs/2312.07104>.
    """

    code = "FW101"
    name = "volatile-before-static"
    severity = Severity.WARNING
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)
    causes = (Kind.QUESTION, Kind.INPUT, Kind.HISTORY)
    said = "changes more often than the text behind it"
    advice = "move it behind the text that stays the same"

    def takes(self, found: Break) -> bool:
        if found.forks or (found.cause is Kind.QUESTION and found.at.context_behind):
            return False
        return found.cause is None or found.cause in self.causes or found.at.in_last_turn


class ClockInPrefix(BreakRule):
    """The time or date stands before text that doesn't change.

    ## What it does
    Finds calls of the clock (`now()`, `strftime_now`, `datetime.now()`) and values named like a
    time or date (`current_date`, `timestamp`) in front of text that is the same in every request,
    of documents or of a conversation.

    ## Why it costs
    With seconds in it, nothing behind it is ever re-used; with a date, all is lost once a day, for
    all users at the same moment. How short the time is doesn't matter, only where it stands.

    ## Example
    ```jinja
    Today is {{ now() }}.
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    ```

    ## Use instead
    ```jinja
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.

    User: It is {{ current_date }}. {{ question }}
    ```

    ## Fix safety
    Unsafe, in templates: whole segments are moved, as for FW101. Elsewhere no fix:
    the time belongs into the last user turn.

    ## References
    Reported in goruck/home-generative-agent#617, adolfousier/opencrabs#657 and
    Mintplex-Labs/anything-llm#6398.
    """

    code = "FW102"
    name = "clock-in-prefix"
    severity = Severity.ERROR
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)
    causes = (Kind.CLOCK,)
    said = "puts the time before text that could be re-used"
    advice = "put it into the last user turn, or leave it out"


class RandomIdInPrefix(BreakRule):
    """A random value or an id of the request stands before text that doesn't change.

    ## What it does
    Finds random values (`uuid4()`, `|random`) and ids of requests, sessions and traces in front of
    text that is the same in every request, and random values in front of a conversation.

    ## Why it costs
    No two requests share anything behind such a value: the hit rate is what stands before it.

    ## Example
    ```jinja
    [request {{ request_id }}]
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    ```

    ## Use instead
    ```jinja
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    ```

    ## Fix safety
    Unsafe, in templates: whole segments are moved, as for FW101. Elsewhere no fix:
    ids belong into request headers or metadata.

    ## References
    sgl-project/sglang#35129: a gateway put random ids into system prompts; without them, re-use
    rose from 66.8 % to 94.4 %.
    """

    code = "FW103"
    name = "random-id-in-prefix"
    severity = Severity.ERROR
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)
    causes = (Kind.RANDOM, Kind.ID)
    said = "is different each time and stands before text that could be re-used"
    advice = "send it as metadata, or move it to the end"


class UserDataInPrefix(BreakRule):
    """A user's or tenant's data stands before text that all of them share.

    ## What it does
    Finds names, e-mail addresses, profiles and ids of users, customers and tenants in front of text
    that is the same for all of them.

    ## Why it costs
    Each user gets a copy of the whole prompt in the cache: nothing is shared between them, and the
    copies push each other out.

    ## Example
    ```jinja
    You talk to {{ user_name }}.
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    ```

    ## Use instead
    ```jinja
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    You talk to {{ user_name }}.
    ```

    ## Fix safety
    Unsafe, in templates: whole segments are moved, as for FW101. Elsewhere no fix:
    moving text changes what the model reads.

    ## References
    [Order by volatility](../docs/templates.md)
    """

    code = "FW104"
    name = "user-data-in-prefix"
    severity = Severity.WARNING
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)
    causes = (Kind.USER,)
    said = "is one user's and stands before text that all users share"
    advice = "move it behind that text"


class QuestionBeforeContext(BreakRule):
    """The question stands before the documents.

    ## What it does
    Finds a question, query or user message in front of documents, passages or other context.

    ## Why it costs
    Several questions about the same documents could share the documents' KV. With the question in
    front, each of them prefills the documents again: usually the longest part of the prompt.

    ## Example
    ```jinja
    Answer the question from the context.
    Question: {{ question }}
    Context: {{ context }}
    ```

    ## Use instead
    ```jinja
    Answer the question from the context.
    Context: {{ context }}
    Question: {{ question }}
    ```

    ## Fix safety
    Unsafe, in templates: whole segments are moved, as for FW101. Elsewhere no fix:
    moving text changes what the model reads.

    ## References
    superlinear-ai/raglite#49: where context stands decides what is re-used.
    """

    code = "FW105"
    name = "question-before-context"
    severity = Severity.WARNING
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)
    causes = (Kind.QUESTION,)
    said = "is asked before the documents"
    advice = "put the documents first, so that the next question re-uses them"

    def takes(self, found: Break) -> bool:
        asked = found.cause is Kind.QUESTION and found.at.context_behind
        return asked and not found.forks


class EarlyBranch(BreakRule):
    """A conditional on a value stands before text that doesn't change.

    ## What it does
    Finds `{% if %}` with different text for different values in front of text that is always sent.
    A branch that only adds the value it asks for (`{% if hint %}{{ hint }}{% endif %}`) is left
    alone: there the value is the cause, if any. Of flags that may be constants of the deployment,
    the first is named, as a note.

    ## Why it costs
    Each outcome is a prefix of its own: the text behind the branch is held and prefilled once for
    every outcome, and for each combination of several branches.

    ## Example
    ```jinja
    {% if premium %}Be generous with refunds.{% else %}Refuse refunds politely.{% endif %}
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    ```

    ## Use instead
    ```jinja
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    {% if premium %}Be generous with refunds.{% else %}Refuse refunds politely.{% endif %}
    ```

    ## Fix safety
    Unsafe, in templates: whole segments are moved, as for FW101. Elsewhere no fix:
    moving text changes what the model reads.

    ## References
    agentscope/QwenPaw#6952: toggled parts in front shift all that follows.
    """

    code = "FW106"
    name = "early-branch"
    severity = Severity.WARNING
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)
    said = "gives each outcome a prefix of its own"
    advice = "move the branch behind the text that is always sent"

    def takes(self, found: Break) -> bool:
        return found.forks

    def report(self, found: Break, prompt: PromptSource, context: LintContext) -> Finding:
        finding = super().report(found, prompt, context)
        return finding if found.proven else replace(finding, severity=Severity.NOTE)


class SampledExamples(BreakRule):
    """Examples are chosen anew for each request and stand before text that doesn't change.

    ## What it does
    Finds few-shot examples that are drawn at random, shuffled, or picked for the request
    (`examples | random`, `similar_examples`) in front of other text.

    ## Why it costs
    Another choice, or the same in another order, is another prefix: nothing from the first example
    on is re-used.

    ## Example
    ```jinja
    {{ examples | random }}
    Classify the text below as praise, complaint or question. Answer with one word.
    {{ text }}
    ```

    ## Use instead
    ```jinja
    {% for example in examples %}{{ example }}
    {% endfor %}Classify the text below as praise, complaint or question. Answer with one word.
    {{ text }}
    ```

    ## Fix safety
    No fix: which examples to keep is a question of quality. Choose them once, in a fixed order.

    ## References
    LangChain's example selectors and DSPy's sampled demonstrations do this by default.
    """

    code = "FW107"
    name = "sampled-examples"
    severity = Severity.ERROR
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)
    causes = (Kind.SAMPLE,)
    said = "chooses other examples each time"
    advice = "choose them once and keep their order"


RULES: tuple[type[Rule], ...] = (
    VolatileBeforeStatic,
    ClockInPrefix,
    RandomIdInPrefix,
    UserDataInPrefix,
    QuestionBeforeContext,
    EarlyBranch,
    SampledExamples,
)
