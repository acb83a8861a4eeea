"""FW5xx: retrieved context."""

from collections import Counter
from collections.abc import Iterator

import jinja2.nodes as n

from prompts.lint.context import LintContext
from prompts.lint.findings import Confidence, Finding, FixSafety, Severity
from prompts.lint.pieces import Filter, Loop, Value
from prompts.lint.prompt_source import PromptSource
from prompts.lint.rule import Rule, Subject
from prompts.lint.rules.break_rule import BreakRule
from prompts.lint.vocabulary import Kind

_SCORES = frozenset({
    "score", "scores", "rank", "ranking", "similarity", "distance", "relevance", "relevance_score",
    "similarity_score", "rerank_score", "confidence", "certainty", "cosine", "weight", "_score",
})  # fmt: skip


class ContextBeforeScaffold(BreakRule):
    """Documents stand before instructions that never change.

    ## What it does
    Finds documents, passages and other context in front of text that is the same in every request.

    ## Why it costs
    Documents change with the question or the collection; the instructions behind them are prefilled
    again each time.

    ## Example
    ```jinja
    {% for doc in documents %}{{ doc.text }}
    {% endfor %}You answer from the documents above. Use only what they say, and name the document.
    Question: {{ question }}
    ```

    ## Use instead
    ```jinja
    You answer from the documents below. Use only what they say, and name the document.
    {% for doc in documents %}{{ doc.text }}
    {% endfor %}Question: {{ question }}
    ```

    ## Fix safety
    Unsafe, in templates: whole segments are moved, as for FW101. Elsewhere no fix:
    moving text changes what the model reads.

    ## References
    open-webui#20648: chunks in the system message change message 0 in each turn.
    """

    code = "FW501"
    name = "context-before-scaffold"
    severity = Severity.WARNING
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)
    causes = (Kind.CONTEXT,)
    said = "stands before instructions that never change"
    advice = "put the instructions first"


class DocumentOrderVaries(Rule):
    """Documents are sent in the order of a score, or in no fixed order.

    ## What it does
    Finds documents sorted by score, rank, similarity or distance, reversed or shuffled.

    ## Why it costs
    The same passages come in another order for the next question, so that the prefix ends at the
    first that moved. A fixed order (by id) keeps what two questions have in common.

    ## Example
    ```jinja
    Answer from the passages.
    {% for doc in documents | sort(attribute="score", reverse=true) %}{{ doc.text }}
    {% endfor %}
    ```

    ## Use instead
    ```jinja
    Answer from the passages.
    {% for doc in documents | sort(attribute="id") %}{{ doc.text }}
    {% endfor %}
    ```

    ## Fix safety
    No fix: for some models the order matters for quality. Measure it.

    ## References
    open-webui#28291: sorting raised re-use from 14 % to 95 %.
    """

    code = "FW502"
    name = "document-order-varies"
    severity = Severity.WARNING
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part in prompt.parts:
            for found in part.facts.filters:
                if Kind.CONTEXT in found.nature.kinds and _orders_by_score(found):
                    offset = found.node.lineno
                    changes = "each time" if found.node.name == "shuffle" else "with the question"
                    yield self.finding(
                        message=f"{part.tag_label(offset)} sends documents in an order that "
                        f"changes {changes}; sort them by id.",
                        place=part.tag_place(offset),
                    )


def _orders_by_score(found: Filter) -> bool:
    node = found.node
    if node.name == "shuffle":
        return True
    if node.name != "sort":
        return False
    values = [keyword.value for keyword in node.kwargs if keyword.key == "attribute"]
    values += node.args[2:3]
    named = [str(value.value) for value in values if isinstance(value, n.Const)]
    return any(name.rpartition(".")[2].lower() in _SCORES for name in named)


class ScoreOrRankRendered(Rule):
    """A document's score or rank is sent with it.

    ## What it does
    Finds scores, ranks, similarities and distances of documents in what is sent.

    ## Why it costs
    The same passage has another score for the next question: it is never the same text again,
    though its words are.

    ## Example
    ```jinja
    Answer from the passages.
    {% for doc in documents %}[{{ doc.score }}] {{ doc.text }}
    {% endfor %}
    ```

    ## Use instead
    ```jinja
    Answer from the passages.
    {% for doc in documents %}[{{ doc.name }}] {{ doc.text }}
    {% endfor %}
    ```

    ## Fix safety
    No fix: models make little of scores, but that is for you to measure.

    ## References
    cyberlife/VelesDB#1512: ranking must not reach what is cached.
    """

    code = "FW503"
    name = "score-or-rank-rendered"
    severity = Severity.WARNING
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part in prompt.parts:
            for found in part.facts.attributes:
                scored = found.name.lower() in _SCORES and Kind.CONTEXT in found.nature.kinds
                if scored and found.sent:
                    yield self.finding(
                        message=f"{part.tag_label(found.node.lineno)} differs for every question; "
                        "leave it out.",
                        place=part.tag_place(found.node.lineno),
                    )


class DuplicateChunk(Rule):
    """The same documents are sent twice in one prompt.

    ## What it does
    Finds documents or context that a prompt sends twice; in logs, passages that are repeated.

    ## Why it costs
    A copy is prefilled and held like any other text: prefix caching never recognises it.

    ## Example
    ```jinja
    Context: {{ context }}
    Remember the context: {{ context }}
    Question: {{ question }}
    ```

    ## Use instead
    ```jinja
    Context: {{ context }}
    Question: {{ question }}
    ```

    ## Fix safety
    No fix: repeating can be meant, as some models heed what comes last.

    ## References
    LMCache's CacheBlend re-uses text at other places, at the cost of recomputing a part.
    """

    code = "FW504"
    name = "duplicate-chunk"
    severity = Severity.NOTE
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        seen: Counter[frozenset[str]] = Counter()
        for at in prompt.located:
            nature = at.piece.nature
            sent = isinstance(at.piece, Value | Loop) and not at.piece.nested
            if not sent or nature.kinds != {Kind.CONTEXT}:
                continue
            seen[nature.names] += 1
            if seen[nature.names] == 2:
                yield self.finding(
                    message=f"{at.part.label(at.piece)} is sent a second time in this prompt; "
                    "send it once.",
                    place=at.part.place(at.piece),
                    confidence=Confidence.SUSPECTED,
                )


RULES: tuple[type[Rule], ...] = (
    ContextBeforeScaffold,
    DocumentOrderVaries,
    ScoreOrRankRendered,
    DuplicateChunk,
)
