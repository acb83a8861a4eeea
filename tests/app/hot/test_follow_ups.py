"""A conversation that goes on gets from a stem what it would get as a whole."""

import asyncio

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.aside import Aside
from app.conversations import Conversations
from app.hot.stems import Stems, ids_json, messages_json
from app.making import gone_on
from app.messages import message_object
from app.schemas import ChatCompletionRequest
from prompts import Message, PromptTokenizer, TokenizedPrompt, load_tokenizer
from prompts.errors import PromptError
from tests.app.hot.test_stems import (
    MEGABYTE,
    TEMPLATES,
    chat,
    contents,
    key_of,
    meet,
    view_of,
    whole,
)
from tests.tokenizer_folders import write_tokenizer

CHAT = TEMPLATES.find("chat")
SALT = "salt"
dialogues = st.lists(contents, min_size=3, max_size=7).filter(lambda texts: len(texts) % 2 == 1)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    return load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("model")))


class Gateway:
    """What of one remembers beginnings and answers."""

    def __init__(self, tokenizer: PromptTokenizer, *, max_bytes: int = MEGABYTE) -> None:
        self.tokenizer = tokenizer
        self.view = view_of(tokenizer)
        self.stems = Stems(max_bytes=max_bytes)
        self.conversations = Conversations()

    def from_stem(self, request: ChatCompletionRequest) -> TokenizedPrompt | None:
        """The prompt, where a beginning helps."""
        key, content = key_of(self.tokenizer, request), request.messages[-1].text
        made = self.stems.prompt(key, CHAT, content)
        if made is None and (turn := self.stems.turn(key, CHAT, content)) is not None:
            made = self.stems.gone_on(key, turn, self.conversations)
        return made

    def prompt(self, request: ChatCompletionRequest, *, helped: bool = True) -> TokenizedPrompt:
        """The prompt, answers in it as the model spelled them."""
        made = self.from_stem(request) if helped else None
        made = made or whole(self.tokenizer, request)
        going_on = gone_on(Aside(), self.conversations, self.view, made, salt=SALT, characters=0)
        found = asyncio.run(going_on)
        assert found.tokenized is not None
        self.transcript = found.transcript
        return found.tokenized

    def answered(self, prompt: TokenizedPrompt, text: str, *, letters: bool) -> None:
        """The model answers, perhaps letter by letter."""
        parts = list(text) if letters else [text]
        ids = [i for part in parts for i in self.tokenizer.encoder.encode(part).ids]
        answer = Message(role="assistant", content=text)
        self.conversations.answered(
            SALT, prompt, self.tokenizer, output_ids=ids, answer=answer, transcript=self.transcript
        )


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(texts=dialogues, letters=st.lists(st.booleans(), min_size=3, max_size=3))
def test_the_engine_gets_the_same_bytes(
    texts: list[str], letters: list[bool], tokenizer: PromptTokenizer
) -> None:
    quick, slow = Gateway(tokenizer), Gateway(tokenizer)
    try:
        for question in ("One?", "Two?"):
            meet(quick.stems, tokenizer, chat(question))
        for turn in range(0, len(texts), 2):
            request = chat(*texts[: turn + 1])
            made = quick.prompt(request)
            expected = slow.prompt(request, helped=False)
            assert made.token_ids == expected.token_ids
            assert made.ranges == expected.ranges
            messages = [message_object(message) for message in expected.prompt.messages]
            assert orjson.dumps(messages_json(made.prompt, made.stem)) == orjson.dumps(messages)
            assert orjson.dumps(ids_json(made)) == orjson.dumps(expected.token_ids)
            if turn + 1 < len(texts):
                for gateway, prompt in ((quick, made), (slow, expected)):
                    gateway.answered(prompt, texts[turn + 1], letters=letters[turn // 2])
    except PromptError:
        return


def begun(tokenizer: PromptTokenizer, *, max_bytes: int = MEGABYTE) -> Gateway:
    """A gateway that knows how `chat` begins."""
    gateway = Gateway(tokenizer, max_bytes=max_bytes)
    for question in ("One?", "Two?"):
        meet(gateway.stems, tokenizer, chat(question))
    return gateway


def test_answers_spelled_otherwise_are_kept_turn_after_turn(tokenizer: PromptTokenizer) -> None:
    gateway = begun(tokenizer)
    texts = ["When?"]
    held: tuple[int, ...] = ()
    for answer, question in (("nine", "And back?"), ("seven", "How long?"), ("an hour", "Thanks")):
        prompt = gateway.prompt(chat(*texts))
        assert prompt.stem is not None
        assert prompt.token_ids[: len(held)] == held
        gateway.answered(prompt, answer, letters=True)
        letters = [i for part in answer for i in tokenizer.encoder.encode(part).ids]
        held = (*prompt.token_ids, *letters)
        texts += [answer, question]
    last = gateway.from_stem(chat(*texts))
    assert last is not None
    assert last.token_ids[: len(held)] == held


def test_own_ids_outlive_the_stem(tokenizer: PromptTokenizer) -> None:
    gateway = begun(tokenizer)
    first = gateway.prompt(chat("When?"))
    gateway.answered(first, "nine", letters=True)
    second = gateway.prompt(chat("When?", "nine", "And back?"))
    gateway.answered(second, "seven", letters=True)
    gateway.stems.forget_salt(SALT)
    third = gateway.prompt(chat("When?", "nine", "And back?", "seven", "Thanks"))
    assert gateway.transcript is not None
    assert third.stem is None
    assert third.token_ids[: len(second.token_ids)] == second.token_ids


def test_a_conversation_has_one_stem_beside_the_one_it_began_with(
    tokenizer: PromptTokenizer,
) -> None:
    gateway = begun(tokenizer)
    alone = gateway.stems.held_bytes
    texts = ["When?"]
    sizes = []
    for _ in range(4):
        prompt = gateway.prompt(chat(*texts))
        gateway.answered(prompt, "nine", letters=False)
        texts += ["nine", "When?"]
        sizes.append(gateway.stems.held_bytes)
    assert sizes[0] == alone
    assert sizes[3] < 2 * sizes[1]
    assert gateway.from_stem(chat("Else?")) is not None


def test_an_answer_with_reasoning_goes_the_whole_way(tokenizer: PromptTokenizer) -> None:
    gateway = begun(tokenizer)
    prompt = gateway.prompt(chat("When?"))
    answer = Message(role="assistant", content="nine", reasoning="The ferry leaves early.")
    gateway.conversations.answered(
        SALT, prompt, tokenizer, output_ids=[5], answer=answer, transcript=None
    )
    assert gateway.from_stem(chat("When?", "nine", "And back?")) is None
