"""FW6xx: turns that were sent and are sent differently later."""

import re
from collections.abc import Iterator

import jinja2.nodes as n

from prompts.lint.context import LintContext
from prompts.lint.findings import Confidence, Finding, FixSafety, Severity
from prompts.lint.part import Part
from prompts.lint.pieces import Branch, Call, Filter, Slice
from prompts.lint.prompt_source import PromptSource
from prompts.lint.rule import Rule, Subject
from prompts.lint.rules.break_rule import BreakRule
from prompts.lint.vocabulary import Kind

_THINKING = re.compile(r"</?(?:think|thinking|reasoning|thought|reflection)>", re.IGNORECASE)
_FROM_BEHIND = frozenset({"revindex", "revindex0", "length"})
_ORDERINGS = frozenset({"lt", "lteq", "gt", "gteq"})


class HistoryRewritten(Rule):
    """Past turns are sent as other text than before.

    ## What it does
    Finds conversations sent in reverse, or with numbers that count from the end, in prompt files
    and templates; past messages that change, in logs.

    ## Why it costs
    The engine holds the turns as they were sent. The prefix ends at the first that changed.

    ## Example
    ```jinja
    {% for message in messages | reverse %}{{ message.content }}
    {% endfor %}
    ```

    In a log, an answer that is shortened in the next request:
    ```json page-size=8
    {
      "messages": [
        {"role": "system", "content": "You answer questions about bicycles, briefly and politely."},
        {"role": "user", "content": "How do I mend a tube?"},
        {"role": "assistant", "content": "Roughen it, add glue, wait, press the patch on."},
        {"role": "user", "content": "How long do I wait until the glue is dry?"}
      ]
    }
    {
      "messages": [
        {"role": "system", "content": "You answer questions about bicycles, briefly and politely."},
        {"role": "user", "content": "How do I mend a tube?"},
        {"role": "assistant", "content": "Roughen it, add glue […]"},
        {"role": "user", "content": "How long do I wait until the glue is dry?"},
        {"role": "assistant", "content": "Five minutes."},
        {"role": "user", "content": "And if I have no glue?"}
      ]
    }
    ```

    ## Use instead
    ```jinja
    {% for message in messages %}{{ message.content }}
    {% endfor %}
    ```

    ```json page-size=8
    {
      "messages": [
        {"role": "system", "content": "You answer questions about bicycles, briefly and politely."},
        {"role": "user", "content": "How do I mend a tube?"},
        {"role": "assistant", "content": "Roughen it, add glue, wait, press the patch on."},
        {"role": "user", "content": "How long do I wait until the glue is dry?"}
      ]
    }
    {
      "messages": [
        {"role": "system", "content": "You answer questions about bicycles, briefly and politely."},
        {"role": "user", "content": "How do I mend a tube?"},
        {"role": "assistant", "content": "Roughen it, add glue, wait, press the patch on."},
        {"role": "user", "content": "How long do I wait until the glue is dry?"},
        {"role": "assistant", "content": "Five minutes."},
        {"role": "user", "content": "And if I have no glue?"}
      ]
    }
    ```

    ## Fix safety
    No fix: what the model reads changes.

    ## References
    jundot/omlx#3608: later system messages moved into the first one.
    """

    code = "FW601"
    name = "history-rewritten"
    severity = Severity.ERROR
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part in prompt.parts:
            for found in part.facts.filters:
                if found.node.name == "reverse" and _is_history(found):
                    yield self._report(part, found.node.lineno, "sends the newest turn first")
            for repeat in part.facts.repeats:
                if Kind.HISTORY in repeat.nature.kinds:
                    for offset in _counts_from_behind(repeat.node):
                        yield self._report(part, offset, "counts the turns from the end")

    def _report(self, part: Part, offset: int, said: str) -> Finding:
        return self.finding(
            message=f"{part.tag_label(offset)} {said}, so that a new turn changes all earlier "
            "ones; send them as they were.",
            place=part.tag_place(offset),
        )


def _is_history(found: Filter | Slice | Call) -> bool:
    return Kind.HISTORY in found.nature.kinds


def _counts_from_behind(loop: n.For) -> Iterator[int]:
    for output in _sent(loop.body):
        for member in output.find_all(n.Getattr):
            if _loop_member(member, _FROM_BEHIND):
                yield member.lineno


def _sent(body: list[n.Node]) -> Iterator[n.Node]:
    for node in body:
        if isinstance(node, n.Output):
            yield node
        elif not isinstance(node, n.For):
            yield from node.find_all(n.Output)


class TruncatesFromFront(Rule):
    """The oldest turns are dropped as new ones come.

    ## What it does
    Finds `messages[-10:]`, `loop.revindex <= 10` and the like in prompt files and templates,
    `deque(maxlen=…)`, `pop(0)` and slices in Python source, and windows that slide in logs.

    ## Why it costs
    With each new turn another message stands first: nothing behind the system text is re-used, ever
    again.

    ## Example
    ```jinja
    {% for message in messages[-10:] %}{{ message.content }}
    {% endfor %}
    ```

    ## Use instead
    ```jinja
    {% for message in messages %}{{ message.content }}
    {% endfor %}
    ```

    ## Fix safety
    No fix. Drop rarely and much (half of the window at once), or keep all and let the window limit
    it.

    ## References
    SGLang re-uses from the first token on, wherever the text was cut.
    """

    code = "FW602"
    name = "truncates-from-front"
    severity = Severity.ERROR
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part in prompt.parts:
            for found in part.facts.slices:
                if _is_history(found) and _drops_front(found):
                    yield self.finding(
                        message=f"{part.tag_label(found.node.lineno)} drops the oldest turns, so "
                        "that every new turn changes the first; keep all, or drop many at once.",
                        place=part.tag_place(found.node.lineno),
                    )
            for branch in part.facts.branches:
                if branch.loops and Kind.HISTORY in branch.loops[-1].kinds and _windowed(branch):
                    yield self.finding(
                        message=f"{part.tag_label(branch.node.lineno)} lets only the last turns "
                        "through, so that every new turn changes the first; keep all.",
                        place=part.tag_place(branch.node.lineno),
                    )


def _drops_front(found: Slice) -> bool:
    """A start counted from the end.

    `messages[1:]` leaves the system message out, `messages[-1:]` is the last message alone.
    """
    assert isinstance(found.node.arg, n.Slice)
    start = found.node.arg.start
    if isinstance(start, n.Neg):
        return not (isinstance(start.node, n.Const) and start.node.value == 1)
    return isinstance(start, n.Sub)


def _windowed(branch: Branch) -> bool:
    """Whether a test lets through only the last turns: `loop.revindex <= 10`."""
    for compare in (branch.node.test, *branch.node.test.find_all(n.Compare)):
        if not isinstance(compare, n.Compare):
            continue
        ordered = any(operand.op in _ORDERINGS for operand in compare.ops)
        if ordered and any(
            _loop_member(node, _FROM_BEHIND) for node in compare.find_all(n.Getattr)
        ):
            return True
    return False


def _loop_member(node: n.Getattr, names: frozenset[str]) -> bool:
    return isinstance(node.node, n.Name) and node.node.name == "loop" and node.attr in names


class SummaryReplacesTurns(BreakRule):
    """A summary of the conversation stands before its turns, or instead of them.

    ## What it does
    Finds summaries of the conversation in front of text that stays, in prompt files; turns replaced
    by a summary in Python source and logs.

    ## Why it costs
    A summary is written anew from time to time, and then everything behind it is another prefix.

    ## Example
    ```jinja
    {{ conversation_summary }}
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    {% for message in messages %}{{ message.content }}
    {% endfor %}
    ```

    ## Use instead
    ```jinja
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    {{ conversation_summary }}
    {% for message in messages %}{{ message.content }}
    {% endfor %}
    ```

    ## Fix safety
    Unsafe, in templates: whole segments are moved, as for FW101. Elsewhere no fix:
    summarise rarely, when the window is full.

    ## References
    NousResearch/hermes-agent#8687.
    """

    code = "FW603"
    name = "summary-replaces-turns"
    severity = Severity.WARNING
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)
    causes = (Kind.SUMMARY,)
    said = "is written anew from time to time and stands before text that stays"
    advice = "put it behind that text, and renew it rarely"


class ReasoningStripped(Rule):
    """The model's reasoning is taken out of past answers.

    ## What it does
    Finds code that cuts `<think>…</think>` out of messages: in chat templates and prompt files,
    Python source and logs.

    ## Why it costs
    The engine holds the answer with its reasoning. Without it the prefix ends where the reasoning
    began. For many models that is right all the same (*inherent*): their makers ask for it, and
    answers get worse if it stays.

    ## Example
    ```jinja
    {% for message in messages %}{{ message.content.split("</think>")[-1] }}
    {% endfor %}
    ```

    ## Use instead
    ```jinja
    {% for message in messages %}{{ message.content }}
    {% endfor %}
    ```

    ## Fix safety
    No fix: quality comes before re-use. Keep reasoning short, or within one turn of tools.

    ## References
    mlc-llm#3484: for some models stripping is required.
    """

    code = "FW604"
    name = "reasoning-stripped"
    severity = Severity.WARNING
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part in prompt.parts:
            offsets = [c.node.lineno for c in part.facts.calls if _cuts_thinking(c)]
            offsets += [f.node.lineno for f in part.facts.filters if _filters_thinking(f)]
            for offset in offsets[:1]:
                yield self.finding(
                    message=f"{part.tag_label(offset)} takes reasoning out of past answers, so "
                    "that a turn is never the prefix of the next; that can be right for the model.",
                    place=part.tag_place(offset),
                    confidence=Confidence.SUSPECTED,
                )


def _cuts_thinking(call: Call) -> bool:
    method = call.node.node.attr if isinstance(call.node.node, n.Getattr) else ""
    cuts = method in ("split", "rsplit", "partition", "rpartition", "replace")
    return cuts and any(_names_thinking(argument) for argument in call.node.args)


def _filters_thinking(found: Filter) -> bool:
    cuts = found.node.name in ("replace", "regex_replace", "split")
    return cuts and any(_names_thinking(argument) for argument in found.node.args)


def _names_thinking(node: n.Expr) -> bool:
    written = node.value if isinstance(node, n.Const) else None
    return isinstance(written, str) and bool(_THINKING.search(written))


class TurnContextNotKept(Rule):
    """Text is put into the last turn only, and is gone when that turn has become a past one.

    ## What it does
    Finds text that a loop over messages sends for the last of them only (`{% if loop.last %}`); in
    logs, turns that lose text later.

    ## Why it costs
    The engine holds the turn with the text. In the next request it is missing, and the prefix ends
    there.

    ## Example
    ```jinja
    {% for message in messages %}{{ message.content }}
    {% if loop.last %}Answer in the user's language.{% endif %}{% endfor %}
    ```

    ## Use instead
    ```jinja
    {% for message in messages %}{{ message.content }}
    {% endfor %}Answer in the user's language.
    ```

    ## Fix safety
    No fix. Put it behind the conversation, or keep it in the turn for good.

    ## References
    QwenLM/Qwen3#1826: an empty `<think>` in the last turn only; diillson/chatcli#1470.
    """

    code = "FW605"
    name = "turn-context-not-kept"
    severity = Severity.WARNING
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part in prompt.parts:
            for branch in part.facts.branches:
                if branch.loops and Kind.HISTORY in branch.loops[-1].kinds and _last_only(branch):
                    yield self.finding(
                        message=f"{part.tag_label(branch.node.lineno)} puts text into the last "
                        "turn that a later request lacks; put it behind the loop.",
                        place=part.tag_place(branch.node.lineno),
                        confidence=Confidence.SUSPECTED,
                    )


def _last_only(branch: Branch) -> bool:
    """Whether the test asks for the last turn, and words are sent if it is."""
    test = branch.node.test
    conditions = [test.left, test.right] if isinstance(test, n.And) else [test]
    return any(map(_is_last, conditions)) and any(_speaks(node) for node in branch.node.body)


def _is_last(test: n.Node) -> bool:
    """`loop.last`, `loop.revindex == 1`, `loop.index == loop.length`, `message == messages[-1]`."""
    if isinstance(test, n.Getattr):
        return _loop_member(test, frozenset({"last"}))
    if not isinstance(test, n.Compare) or test.ops[0].op != "eq":
        return False
    if any(_loop_member(node, _FROM_BEHIND) for node in test.find_all(n.Getattr)):
        return True
    ends = [node.arg for node in test.find_all(n.Getitem)]
    return any(isinstance(end, n.Neg) and end.find(n.Const) is not None for end in ends)


def _speaks(node: n.Node) -> bool:
    for output in [node] if isinstance(node, n.Output) else node.find_all(n.Output):
        for child in output.nodes:
            if not isinstance(child, n.TemplateData) or child.data.strip():
                return True
    return False


RULES: tuple[type[Rule], ...] = (
    HistoryRewritten,
    TruncatesFromFront,
    SummaryReplacesTurns,
    ReasoningStripped,
    TurnContextNotKept,
)
