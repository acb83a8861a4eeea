"""FW4xx: tool lists, schemas, calls and results."""

from collections.abc import Iterator

from prompts.lint.context import LintContext
from prompts.lint.findings import Confidence, Finding, FixSafety, Severity
from prompts.lint.pieces import Filter
from prompts.lint.prompt_source import PromptSource
from prompts.lint.rule import Rule, Subject
from prompts.lint.rules.break_rule import BreakRule
from prompts.lint.vocabulary import Kind
from prompts.segments import Volatility

_CHOOSING = frozenset({"select", "reject", "selectattr", "rejectattr", "random", "shuffle"})


class ToolsNotSorted(Rule):
    """The list of tools comes in an order that differs between requests.

    ## What it does
    In Python source, finds tool lists made from sets, mappings or registries without a sort; in
    logs, requests with the same tools in another order. In Foreword's templates tools are sorted.

    ## Why it costs
    Chat templates put tools in front of everything else: with the first tool that moved, the whole
    prompt is prefilled again.

    ## Example
    ```python
    import openai

    client = openai.OpenAI()
    enabled = {"search", "read", "write"}
    tools = [{"type": "function", "function": {"name": name}} for name in enabled]
    client.chat.completions.create(
        model="m", tools=tools, messages=[{"role": "user", "content": "Hello"}]
    )
    ```

    ## Use instead
    ```python
    import openai

    client = openai.OpenAI()
    enabled = {"search", "read", "write"}
    tools = [{"type": "function", "function": {"name": name}} for name in sorted(enabled)]
    client.chat.completions.create(
        model="m", tools=tools, messages=[{"role": "user", "content": "Hello"}]
    )
    ```

    ## Fix safety
    Unsafe: `sorted(…)` changes the order, once.

    ## References
    pydantic/logfire#1930: a server's tool list changed its order in 6 % of the calls.
    """

    code = "FW401"
    name = "tools-not-sorted"
    severity = Severity.WARNING
    fixes = (FixSafety.UNSAFE,)
    subjects = (Subject.PYTHON, Subject.LOG)


class ToolSchemaNotCanonical(Rule):
    """A tool's schema has its keys in an order that differs between requests.

    ## What it does
    In logs, finds tools that are equal as JSON and differ as text.

    ## Why it costs
    `transformers` and SGLang render schemas as they come: another order of keys is another prefix,
    from the tool list on, which stands at the front.

    ## Example
    ```json page-size=8 times=2
    {
      "tools": [
        {"type": "function", "function": {"name": "search", "description": "Search the manual."}}
      ],
      "messages": [{"role": "user", "content": "How do I mend a tube?"}]
    }
    {
      "tools": [
        {"function": {"description": "Search the manual.", "name": "search"}, "type": "function"}
      ],
      "messages": [{"role": "user", "content": "Which oil is right for the chain?"}]
    }
    ```

    ## Use instead
    One place that makes the schema, with sorted keys (Foreword's gateway does that).
    ```json page-size=8 times=2
    {
      "tools": [
        {"type": "function", "function": {"name": "search", "description": "Search the manual."}}
      ],
      "messages": [{"role": "user", "content": "How do I mend a tube?"}]
    }
    {
      "tools": [
        {"type": "function", "function": {"name": "search", "description": "Search the manual."}}
      ],
      "messages": [{"role": "user", "content": "Which oil is right for the chain?"}]
    }
    ```

    ## Fix safety
    No fix in source. The order of a schema's keys can change what a model answers: settle it once.

    ## References
    sgl-project/sglang#34553, Lakr233/FlowDown#273, ggml-org/llama.cpp#15216.
    """

    code = "FW402"
    name = "tool-schema-not-canonical"
    severity = Severity.WARNING
    subjects = (Subject.LOG,)


class ToolListVaries(BreakRule):
    """The set of tools changes from request to request or from turn to turn.

    ## What it does
    Finds tool lists that are filtered or chosen per request, in prompt files, templates (a tools
    variable of `turn` or `session` volatility), Python source and logs.

    ## Why it costs
    Tools stand in front of the conversation. One more or less in the middle of a conversation, and
    all of its turns are prefilled again.

    ## Example
    ```jinja
    You can call these functions.
    {% for tool in tools | selectattr("enabled") %}{{ tool.name }}: {{ tool.description }}
    {% endfor %}
    ```

    ## Use instead
    ```jinja
    You can call these functions.
    {% for tool in tools %}{{ tool.name }}: {{ tool.description }}
    {% endfor %}
    ```

    ## Fix safety
    No fix: send all tools always, and say in the last turn which may be used, or use `tool_choice`.

    ## References
    agentscope/QwenPaw#6952: toggled tool groups.
    """

    code = "FW403"
    name = "tool-list-varies"
    severity = Severity.ERROR
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)
    causes = (Kind.TOOL_CHOICE,)
    said = "names a choice of tools that changes, in front of text that doesn't"
    advice = "send all tools always"

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        yield from super().check(prompt, context)
        for part in prompt.parts:
            for found in part.facts.filters:
                if _chooses_tools(found):
                    yield self.finding(
                        message=f"{part.tag_label(found.node.lineno)} sends a choice of the tools; "
                        "send all of them, in a fixed order.",
                        place=part.tag_place(found.node.lineno),
                        severity=Severity.WARNING,
                        confidence=Confidence.SUSPECTED,
                    )
        yield from self._declared(prompt)

    def _declared(self, prompt: PromptSource) -> Iterator[Finding]:
        template = prompt.template
        variable = template.variables.get(template.tools or "") if template else None
        if variable is not None and variable.volatility >= Volatility.SESSION:
            place = prompt.source.line_place(variable.line, variable.column - 1)
            yield self.finding(
                message=f"The tools {variable.name} change with each {variable.volatility.label} "
                "and stand in front of everything; declare a fixed list.",
                place=place,
            )


def _chooses_tools(found: Filter) -> bool:
    return found.node.name in _CHOOSING and found.nature.kinds == {Kind.TOOLS}


class ToolTextRewritten(Rule):
    """A tool call's arguments or a tool's result is sent back as other text than it was.

    ## What it does
    Finds arguments and results that are parsed and serialised again before they are sent back, in
    Python source and in logs.

    ## Why it costs
    The engine holds the call as the model wrote it. With other spaces, escapes or key order the
    prefix ends at the call, and all later turns are prefilled again.

    ## Example
    ```python
    import json

    import openai


    def reply(client: openai.OpenAI, messages: list, call, result: str) -> None:
        content = json.dumps(json.loads(result))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        client.chat.completions.create(model="m", messages=messages)
    ```

    ## Use instead
    ```python
    import openai


    def reply(client: openai.OpenAI, messages: list, call, result: str) -> None:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        client.chat.completions.create(model="m", messages=messages)
    ```

    ## Fix safety
    No fix.

    ## References
    ai-dynamo/dynamo#9301, teunlao/swift-ai-sdk#39, pydantic-ai#6300.
    """

    code = "FW404"
    name = "tool-text-rewritten"
    severity = Severity.WARNING
    subjects = (Subject.PYTHON, Subject.LOG)


class VolatileToolDescription(Rule):
    """A tool's description or schema holds something that changes.

    ## What it does
    Finds times, ids, user data and the like in tool definitions, in Python source and in logs.

    ## Why it costs
    Tools stand in front of everything else: a clock in a description costs the whole prompt.

    ## Example
    ```python
    from datetime import datetime

    import openai

    tool = {
        "type": "function",
        "function": {"name": "search", "description": f"Search. Today is {datetime.now()}."},
    }
    openai.OpenAI().chat.completions.create(
        model="m", tools=[tool], messages=[{"role": "user", "content": "Hello"}]
    )
    ```

    ## Use instead
    ```python
    from datetime import datetime

    import openai

    tool = {"type": "function", "function": {"name": "search", "description": "Search."}}
    openai.OpenAI().chat.completions.create(
        model="m",
        tools=[tool],
        messages=[{"role": "user", "content": f"Hello. Today is {datetime.now()}."}],
    )
    ```

    ## Fix safety
    No fix: say it in the last user turn.

    ## References
    anthropics/claude-code#43657: text between tools that moves.
    """

    code = "FW405"
    name = "volatile-tool-description"
    severity = Severity.ERROR
    subjects = (Subject.PYTHON, Subject.LOG)


RULES: tuple[type[Rule], ...] = (
    ToolsNotSorted,
    ToolSchemaNotCanonical,
    ToolListVaries,
    ToolTextRewritten,
    VolatileToolDescription,
)
