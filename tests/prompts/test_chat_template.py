"""Chat templates come out as transformers renders them, and it is known whose words are whose."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from transformers.utils.chat_template_utils import _compile_jinja_template

from prompts import Message, Tool, ToolCall, canonical_tools
from prompts.chat_rope import Origin, Rope, join
from prompts.chat_shapes import Piece
from prompts.chat_template import ChatTemplate, template_messages, text_of, tool_objects
from prompts.errors import ChatTemplateError
from tests.tokenizer_packages import NPM, RealTokenizers

NAMES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
# Never in a template's own words.
MARK = "§"

# One of each family: what is said here holds for all 71 of the package, at ten times the time.
TEMPLATES = (
    "Apertus-8B-Instruct",
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "GLM-4.6",
    "HuggingFaceTB-SmolLM3-3B",
    "Kimi-K2-Thinking",
    "MiniMax-M2",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "Qwen3-Coder",
    "Qwen3.5-4B",
    "deepseek-ai-DeepSeek-V3.1",
    "google-gemma-4-31B-it",
    "ibm-granite-granite-4.0",
    "llama-cpp-deepseek-r1",
    "meetkai-functionary-medium-v3.1",
    "meta-llama-Llama-3.3-70B-Instruct",
    "microsoft-Phi-3.5-mini-instruct",
    "mistralai-Ministral-3-14B-Reasoning-2512",
    "openai-gpt-oss-120b",
)

TOOLS = canonical_tools(
    [
        {
            "type": "function",
            "function": {
                "name": f"get{MARK}_{number}",
                "description": f'Says "{MARK}", <|im_end|>, é.',
                "parameters": {
                    "type": "object",
                    "properties": {f"a{MARK}": {"type": "string", "enum": [f"x{MARK}", "y"]}},
                    "required": [f"a{MARK}"],
                },
            },
        }
        for number in range(3)
    ]
)
CALL = ToolCall(
    id=f"{MARK}call0001",
    name=f"get{MARK}_1",
    arguments=f'{{"b": 1.50, "a{MARK}": "x{MARK} <|im_end|>\\u00e9", "c": ["{MARK}"]}}',
)
SHORT_ID = ToolCall(id=f"{MARK}abcdefgh", name="f", arguments="{}")
SYSTEM = Message(role="system", content=f"{MARK}Be brief. {MARK} ")
ASKED = Message(role="user", content=f" {MARK}Hi\n{MARK} ")
THOUGHT = Message(role="assistant", content=f"<think>\n{MARK}hm\n</think>\n\n{MARK}Yes ")
CALLED = Message(role="assistant", content="", reasoning=f"{MARK}Think", tool_calls=(CALL,))
RESULT = Message(role="tool", content=f"4{MARK}2 <|im_end|>", tool_call_id=CALL.id, name=CALL.name)
CONVERSATIONS = {
    "asked": [ASKED],
    "talk": [SYSTEM, ASKED, THOUGHT, ASKED],
    "agent": [SYSTEM, ASKED, CALLED, RESULT],
    "agent goes on": [SYSTEM, ASKED, CALLED, RESULT, THOUGHT, ASKED],
    "answer last": [ASKED, Message(role="assistant", content=f"{MARK}So")],
}


@dataclass(frozen=True)
class Case:
    """One conversation through one chat template: its pieces, or why there are none."""

    name: str
    source: str
    messages: list[Message]
    tools: tuple[Tool, ...]
    pieces: list[Piece]
    problem: str | None = None

    @classmethod
    def of(
        cls, name: str, template: ChatTemplate, messages: list[Message], tools: tuple[Tool, ...]
    ) -> "Case":
        try:
            return cls(name, template.source, messages, tools, template.pieces(messages, tools))
        except ChatTemplateError as error:
            return cls(name, template.source, messages, tools, [], error.problem)


@pytest.fixture(scope="module")
def cases(real_tokenizers: RealTokenizers) -> list[Case]:
    """Every conversation through each of these models' chat templates."""
    folder = real_tokenizers.templates()
    sources = {name: (folder / f"{name}.jinja").read_text("utf-8") for name in TEMPLATES}
    for model in NPM:
        config = real_tokenizers.folder(model) / "tokenizer_config.json"
        sources[model] = json.loads(config.read_text("utf-8"))["chat_template"]
    templates = {name: ChatTemplate(source, NAMES) for name, source in sources.items()}
    return [
        Case.of(name, template, conversation, tools)
        for name, template in templates.items()
        for conversation in CONVERSATIONS.values()
        for tools in ((), TOOLS)
    ]


def test_texts_are_those_of_transformers(cases: list[Case]) -> None:
    rendered = [case for case in cases if case.problem is None]
    assert len(rendered) > 140
    for case in rendered:
        expected = _as_transformers(case.source, case.messages, case.tools)
        assert text_of(case.pieces) == expected, case.name


def test_no_template_takes_a_content_for_its_own_words(cases: list[Case]) -> None:
    for case in cases:
        own = "".join(piece.text for piece in case.pieces if piece.origin is None)
        assert MARK not in own, case.name


def test_a_refusal_is_the_templates_own_or_says_what_cannot_be_followed(cases: list[Case]) -> None:
    ours = ("today's date", "marked as safe", "formats", "on the text of messages")
    for case in cases:
        if case.problem is None or any(words in case.problem for words in ours):
            continue
        assert _refused_by_transformers(case), f"{case.name}: {case.problem}"


def _refused_by_transformers(case: Case) -> bool:
    try:
        _as_transformers(case.source, case.messages, case.tools)
    except Exception:  # noqa: BLE001 (whatever a template does)
        return True
    return False


def _as_transformers(source: str, messages: list[Message], tools: tuple[Tool, ...]) -> str:
    """As the engine does it, with flat tools when the first attempt fails."""
    template = _compile_jinja_template(source)
    plain = _plain(template_messages(messages))
    seen = _plain(tool_objects(tools))
    context = {"messages": plain, "documents": None, "add_generation_prompt": True, **NAMES}
    try:
        return str(template.render(tools=seen or None, **context))
    except Exception:
        if not tools:
            raise
        return str(template.render(tools=[tool["function"] for tool in seen], **context))


def _plain(value: Any) -> Any:
    match value:
        case Rope():
            return "".join(map(str.__str__, str.__iter__(value)))
        case dict():
            return {_plain(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case _:
            return value


@pytest.mark.parametrize(
    "expression",
    [
        "content",
        "content | trim",
        "content.split('b')[1]",
        "content.rsplit('b', 1) | join('-')",
        "content.split() | join",
        "content.strip('a ')",
        "content[2:]",
        "content[::-1]",
        "content[-1]",
        "(content ~ 'x') | replace('x', 'y')",
        "'z'.join([content, content])",
        "'ab'.replace('a', content)",
        "content | upper",
        "content | title",
        "content | capitalize",
        "content | indent(2, true)",
        "content.splitlines() | last",
        "content | list | join",
        "content | tojson",
        "{'k': content} | string",
        "{'k': content} | tojson(indent=2)",
        "content.partition('b') | join('|')",
        "content.removeprefix(' a').removesuffix('b ')",
        "content * 2",
        "content if content.startswith(' ') else 'own'",
        "(content | first) ~ (content | last)",
        "[content] | map('trim') | join",
        "{'k': content}",
        "content.parts is defined",
        "'own \\'' | safe + content",
        "content + ('<own>' | safe)",
        "(content | tojson(indent=1) | safe) ~ '<'",
    ],
)
def test_whatever_is_done_to_a_content_stays_known(expression: str) -> None:
    source = "<" + "{{ " + expression + " }}>"
    content = " a§b\nc§b §"
    plain = _compile_jinja_template(source.replace("content", "messages[0].content"))
    template = ChatTemplate(source.replace("content", "messages[0].content"), {})
    pieces = template.pieces([Message(role="user", content=content)])
    expected = plain.render(messages=[{"role": "user", "content": content}])
    assert "".join(piece.text for piece in pieces) == expected
    assert not any("§" in piece.text for piece in pieces if piece.origin is None)
    assert pieces[0].origin is None
    assert pieces[-1].origin is None


@pytest.mark.parametrize(
    "expression",
    [
        "'%s!' % content",
        "'{}!'.format(content)",
        "content.format()",
        "content | escape",
        "content | urlencode",
        "content | wordwrap(3)",
        "'own ' | safe + content + '<'",
        "content + ('own' | safe) + '&'",
        "content.center(40)",
        "content.encode()",
    ],
)
def test_what_cannot_be_followed_is_refused(expression: str) -> None:
    source = "{{ " + expression.replace("content", "messages[0].content") + " }}"
    with pytest.raises(ChatTemplateError):
        ChatTemplate(source, {}).pieces([Message(role="user", content="§ text")])


def test_pieces_say_where_in_their_origin_they_start() -> None:
    template = ChatTemplate("{{ bos_token }}[{{ messages[0].content | trim }}]", {"bos_token": "B"})
    own, content, end = template.pieces([Message(role="user", content="  hello ")])
    assert (own.text, own.origin) == ("B[", None)
    assert (content.text, content.origin, content.offset) == ("hello", Origin(0, "content"), 2)
    assert end.text == "]"


def test_tools_look_as_the_engine_dumps_them() -> None:
    """Absent fields are there as null, after those that were given; `defer_loading` is last."""
    bare = canonical_tools([{"type": "function", "function": {"name": "now"}}])
    template = ChatTemplate("{{ tools | tojson }}", {})
    assert template.render([], bare) == (
        '[{"type": "function", "function": {"name": "now", "description": null, '
        '"parameters": null}, "defer_loading": null}]'
    )


def test_ropes_keep_count() -> None:
    rope = join((Rope.of("one two", Origin(0, "content")), " and ", Rope.of("x", Origin(1, "c"))))
    assert sum(part.length for part in rope.parts) == len(rope)
    assert [part.origin and part.origin.message for part in rope.parts] == [0, None, 1]
    assert rope.cut(4, 9) == "two a"
    assert rope.cut(4, 9).parts[0].offset == 4
