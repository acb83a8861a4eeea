"""What a request gets from a stem is what it would get without, and only its own tenant's."""

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.engine import EngineInfo
from app.hot.stems import StemKey, Stems, ids_json, messages_json, stem_key
from app.messages import message_object
from app.parity import Parity
from app.replica_view import ReplicaView
from app.schemas import ChatCompletionRequest, split_messages
from prompts import (
    PromptTokenizer,
    Template,
    TokenizedPrompt,
    load_templates,
    load_tokenizer,
    render,
    shipped_templates,
)
from prompts.errors import PromptError
from tests.tokenizer_folders import write_tokenizer

TEMPLATES = load_templates(shipped_templates())
MEGABYTE = 2**20
contents = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
turns = st.lists(st.tuples(contents, contents), max_size=2)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    return load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("model")))


def view_of(tokenizer: PromptTokenizer, *, parity: bool = True) -> ReplicaView:
    info = EngineInfo(
        model_path="tiny",
        tokenizer_path="tiny",
        served_name="tiny",
        context_tokens=4096,
        page_tokens=16,
        pool_tokens=None,
        cache_report=True,
        tiers=False,
        version="0",
        kv_events=None,
        settings={},
    )
    return ReplicaView(info=info, tokenizer=tokenizer, parity=Parity(ok=parity))


def chat(*texts: str, instructions: str = "Be brief.", **more: object) -> ChatCompletionRequest:
    """A request of turns of the user and the assistant, the user's first."""
    said = [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(texts)
    ]
    messages = [{"role": "system", "content": instructions}, *said]
    return ChatCompletionRequest.model_validate({"model": "m", "messages": messages, **more})


def key_of(
    tokenizer: PromptTokenizer, request: ChatCompletionRequest, *, salt: str = "salt"
) -> StemKey:
    key = stem_key(view_of(tokenizer), TEMPLATES.find("chat"), request, salt=salt, tools=())
    assert key is not None
    return key


def whole(tokenizer: PromptTokenizer, request: ChatCompletionRequest) -> TokenizedPrompt:
    instructions, conversation = split_messages(request.messages)
    values = {"conversation": conversation} | (
        {"instructions": instructions} if instructions else {}
    )
    return tokenizer.tokenize(render(TEMPLATES.find("chat"), values))


def meet(stems: Stems, tokenizer: PromptTokenizer, request: ChatCompletionRequest) -> None:
    key = key_of(tokenizer, request)
    stems.met(key, tokenizer, whole(tokenizer, request), request.messages[-1].text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(instructions=contents, earlier=turns, lasts=st.lists(contents, min_size=3, max_size=3))
def test_the_engine_gets_the_same_bytes(
    instructions: str,
    earlier: list[tuple[str, str]],
    lasts: list[str],
    tokenizer: PromptTokenizer,
) -> None:
    stems = Stems(max_bytes=MEGABYTE)
    before = [text for turn in earlier for text in turn]
    *first, third = [chat(*before, last, instructions=instructions) for last in lasts]
    try:
        for request in first:
            meet(stems, tokenizer, request)
        expected = whole(tokenizer, third)
    except PromptError:
        return
    made = stems.prompt(key_of(tokenizer, third), TEMPLATES.find("chat"), lasts[2])
    if made is None:
        return
    assert made == expected
    assert made.packed == expected.packed
    messages = [message_object(message) for message in expected.prompt.messages]
    for _ in range(2):  # made, and from what was noted
        assert orjson.dumps(messages_json(made.prompt, made.stem)) == orjson.dumps(messages)
        assert orjson.dumps(ids_json(made)) == orjson.dumps(expected.token_ids)


def test_a_beginning_is_kept_when_it_comes_again(tokenizer: PromptTokenizer) -> None:
    stems, template = Stems(max_bytes=MEGABYTE), TEMPLATES.find("chat")
    for number, question in enumerate(("One?", "Two?", "Three?")):
        request = chat(question)
        made = stems.prompt(key_of(tokenizer, request), template, question)
        assert (made is not None) is (number == 2)
        if made is None:
            meet(stems, tokenizer, request)
    assert stems.prompt(key_of(tokenizer, chat("x", instructions="No.")), template, "x") is None
    assert stems.prompt(key_of(tokenizer, chat("x"), salt="other"), template, "x") is None


def test_what_begins_under_a_dead_salt_is_forgotten(tokenizer: PromptTokenizer) -> None:
    stems, template = Stems(max_bytes=MEGABYTE), TEMPLATES.find("chat")
    for question in ("One?", "Two?"):
        meet(stems, tokenizer, chat(question))
    stems.forget_salt("other")
    assert stems.prompt(key_of(tokenizer, chat("x")), template, "x") is not None
    stems.forget_salt("salt")
    assert stems.prompt(key_of(tokenizer, chat("x")), template, "x") is None
    assert stems.held_bytes == 0


def test_what_is_not_canonical_is_made_so(tokenizer: PromptTokenizer) -> None:
    stems, template = Stems(max_bytes=MEGABYTE), TEMPLATES.find("chat")
    for question in ("One?", "Two?"):
        meet(stems, tokenizer, chat(question))
    raw = "Cafe\u0301\r\nnow?"
    made = stems.prompt(key_of(tokenizer, chat(raw)), template, raw)
    assert made == whole(tokenizer, chat(raw))
    assert stems.prompt(key_of(tokenizer, chat(raw)), template, "\ud800") is None


def test_memory_is_bounded(tokenizer: PromptTokenizer) -> None:
    stems, template = Stems(max_bytes=40_000), TEMPLATES.find("chat")
    for number in range(40):
        for question in ("One?", "Two?"):
            meet(stems, tokenizer, chat(question, instructions=f"Rule {number}. " * 20))
        assert 0 < stems.held_bytes <= 40_000
    oldest, latest = (chat("x", instructions=f"Rule {n}. " * 20) for n in (0, 39))
    assert stems.prompt(key_of(tokenizer, oldest), template, "x") is None
    assert stems.prompt(key_of(tokenizer, latest), template, "x") is not None


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
        [{"role": "user", "content": "a", "name": "Ann"}],
        [{"role": "assistant", "content": None}, {"role": "user", "content": "a"}],
    ],
)
def test_other_messages_have_no_key(
    messages: list[dict[str, object]], tokenizer: PromptTokenizer
) -> None:
    request = ChatCompletionRequest.model_validate({"model": "m", "messages": messages})
    assert _key(request, tokenizer, TEMPLATES.find("chat")) is None


def test_a_template_that_shows_a_question_has_no_key(tokenizer: PromptTokenizer) -> None:
    assert _key(chat("a"), tokenizer, TEMPLATES.find("docqa")) is None
    assert _key(chat("a"), tokenizer, TEMPLATES.find("chat"), parity=False) is None


def _key(
    request: ChatCompletionRequest,
    tokenizer: PromptTokenizer,
    template: Template,
    *,
    parity: bool = True,
) -> StemKey | None:
    view = view_of(tokenizer, parity=parity)
    return stem_key(view, template, request, salt="salt", tools=())
