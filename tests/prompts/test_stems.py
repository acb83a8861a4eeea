"""A prompt put together from its stem is the prompt that its whole text makes."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cache.accounting import pieces_of
from prompts import (
    Message,
    Prompt,
    PromptStem,
    PromptTokenizer,
    TokenizedPrompt,
    Tool,
    canonical_text,
    canonical_tools,
    load_templates,
    load_tokenizer,
    render,
    shipped_templates,
    stem_of,
    token_digest,
)
from prompts.errors import ChatTemplateError
from tests.prompts.test_token_seams import fragments
from tests.tokenizer_folders import CHATML, CHATML_TOOLS, write_tokenizer
from tests.tokenizer_packages import MODELS, RealTokenizers

chat = load_templates(shipped_templates()).find("chat")
contents = st.lists(fragments, min_size=1, max_size=6).map("".join).map(canonical_text)
openings = st.lists(st.tuples(contents, contents), max_size=2)
TRIMS = CHATML.replace("message['content'] +", "message['content'] | trim +")
# No control token between the messages: each could change the tokens of the one before.
BARE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} {% endfor %}answer:"
ASKS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if 'fox' in m['content'] %}(a fox) {% endif %}{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)
TWICE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\nTo {{ messages[-1]['content'] }}: "
)
shared = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)


def _tokenized(
    tokenizer: PromptTokenizer, instructions: str, turns: list[tuple[str, str]], last: str
) -> TokenizedPrompt:
    conversation = []
    for asked, answered in turns:
        conversation.append(Message(role="user", content=asked))
        conversation.append(Message(role="assistant", content=answered))
    conversation.append(Message(role="user", content=last))
    values = {"conversation": tuple(conversation)}
    if instructions:
        values["instructions"] = instructions  # type: ignore[assignment]
    return tokenizer.tokenize(render(chat, values))


def _check(
    tokenizer: PromptTokenizer,
    instructions: str,
    turns: list[tuple[str, str]],
    one: str,
    other: str,
) -> PromptStem | None:
    try:
        first = _tokenized(tokenizer, instructions, turns, one)
        expected = _tokenized(tokenizer, instructions, turns, other)
    except ChatTemplateError:
        assume(False)
    stem = stem_of(tokenizer, first)
    made = stem.prompt_with(expected.prompt.messages[-1].content) if stem else None
    if stem is None or made is None:
        return stem
    assert made == expected
    assert made.prompt.messages == expected.prompt.messages
    assert made.packed == expected.packed
    assert made.packed.startswith(stem.packed)
    assert made.layout is not None
    assert expected.layout is not None
    assert made.layout.segments == expected.layout.segments
    assert list(made.layout.spans) == list(expected.layout.spans)
    assert made.layout.characters == expected.layout.characters
    assert made.layout.cuts == expected.layout.cuts
    for _ in range(2):  # the second time, from what was noted with the stem
        assert pieces_of(made) == pieces_of(expected)
    assert made.digest == expected.digest == token_digest(expected.token_ids)
    assert made.prompt.fingerprint == expected.prompt.fingerprint
    return stem


@pytest.mark.slow  # five real tokenizers
@pytest.mark.parametrize("model", MODELS)
def test_real_models(model: str, real_tokenizers: RealTokenizers) -> None:
    tokenizer = real_tokenizers.load(model)

    @shared
    @given(instructions=contents, turns=openings, one=contents, other=contents)
    def check(instructions: str, turns: list[tuple[str, str]], one: str, other: str) -> None:
        _check(tokenizer, instructions, turns, one, other)

    check()
    assert _check(tokenizer, "Be brief.", [("Hello", "Hi!")], "And now?", "What else?") is not None


@pytest.fixture(scope="module", params=[CHATML, TRIMS, BARE, ASKS, TWICE, CHATML_TOOLS])
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("model"), chat_template=request.param)


@shared
@given(instructions=st.one_of(st.just(""), contents), turns=openings, one=contents, other=contents)
def test_templates_of_all_kinds(
    instructions: str, turns: list[tuple[str, str]], one: str, other: str, small: Path
) -> None:
    tokenizer = load_tokenizer(small)
    _check(tokenizer, instructions, turns, one, other)


@pytest.mark.parametrize(("template", "known"), [(CHATML, True), (TRIMS, True), (TWICE, False)])
def test_a_stem_is_found_where_the_last_message_is_shown_once(
    tmp_path: Path, template: str, known: bool
) -> None:
    tokenizer = load_tokenizer(write_tokenizer(tmp_path, chat_template=template))
    stem = _check(tokenizer, "Be brief.", [("Hello", "Hi!")], "And now?", "What else?")
    assert (stem is not None) is known


def test_what_the_template_treats_differently_is_not_made(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_tokenizer(tmp_path, chat_template=ASKS))
    stem = stem_of(tokenizer, _tokenized(tokenizer, "", [], "a hen"))
    assert stem is not None
    assert stem.prompt_with("a dog") is not None
    assert stem.prompt_with("a fox") is None


def test_tools_are_part_of_a_stem(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_tokenizer(tmp_path, chat_template=CHATML_TOOLS))
    tools = canonical_tools([{"type": "function", "function": {"name": "f", "parameters": {}}}])
    prompts = [
        tokenizer.tokenize(_with_tools(content, tools)) for content in ("one", "two and a half")
    ]
    stem = stem_of(tokenizer, prompts[0])
    assert stem is not None
    made = stem.prompt_with("two and a half")
    assert made == prompts[1]
    assert made is not None
    assert pieces_of(made) == pieces_of(prompts[1])


def _with_tools(content: str, tools: tuple[Tool, ...]) -> Prompt:
    prompt = render(chat, {"conversation": (Message(role="user", content=content),)})
    return replace(prompt, tools=tools)
