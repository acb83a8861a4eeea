"""Each prompt of a conversation begins with the very ids that the engine holds, or says why not."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prompts import (
    Message,
    PromptTokenizer,
    ToolCall,
    Transcript,
    TranscriptRewriteError,
    load_tokenizer,
)
from prompts.errors import ChatTemplateError
from tests.tokenizer_folders import CHATML, write_tokenizer
from tests.tokenizer_packages import MODELS, RealTokenizers

STOPS = {
    "smollm2": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "gemma3": "<end_of_turn>",
    "llama3_1": "<|eot_id|>",
    "deepseek_v3": "<\uff5cend▁of▁sentence\uff5c>",
}
SYSTEM = Message(role="system", content="Be brief. ")
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.sampled_from(["  Hi", "12345", "\n\nSo\n", "<|im_end|>", "<think>", "東京 ", "é\r\n", " "]),
)
turns = st.lists(st.tuples(texts, texts, st.integers(1, 9), st.booleans()), max_size=4)
shared = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None
)


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def tokenizer(model: str, real_tokenizers: RealTokenizers) -> PromptTokenizer:
    return real_tokenizers.load(model)


def spelled(tokenizer: PromptTokenizer, text: str, width: int) -> list[int]:
    """A text in tokens that no tokenizer would choose: encoded a few characters at a time."""
    ids: list[int] = []
    for start in range(0, len(text), width):
        piece = text[start : start + width]
        ids += tokenizer.encoder.encode(piece, add_special_tokens=False).ids
    return ids


def output(tokenizer: PromptTokenizer, model: str, text: str, *, width: int = 3) -> list[int]:
    """A model's answer, its stop token at the end."""
    return [*spelled(tokenizer, text, width), tokenizer.control.id_of(STOPS[model])]


def user(text: str) -> Message:
    return Message(role="user", content=text)


@shared
@given(question=texts, rest=turns)
def test_each_prompt_begins_with_all_that_was_said(
    question: str,
    rest: list[tuple[str, str, int, bool]],
    tokenizer: PromptTokenizer,
    model: str,
) -> None:
    """Whatever tokens the model chose, and whether it stopped or was cut short."""
    transcript = Transcript.start(tokenizer, [SYSTEM, user(question)])
    assert transcript.token_ids == tokenizer.encode_messages([SYSTEM, user(question)])
    for answer, following, width, stopped in rest:
        ids = output(tokenizer, model, answer, width=width)
        answered = transcript.answer(ids if stopped else ids[:-1])
        assert answered.token_ids == (*transcript.token_ids, *(ids if stopped else ids[:-1]))
        transcript = answered.append(user(following))
        assert transcript.messages[-1].content == following
        held = len(answered.token_ids)
        if transcript.inherent is None:
            assert transcript.token_ids[:held] == answered.token_ids
        else:
            place = transcript.inherent.token
            assert transcript.inherent.of == held
            assert transcript.token_ids[:place] == answered.token_ids[:place]
            assert transcript.token_ids[place] != answered.token_ids[place]


@shared
@given(question=texts, answer=texts, following=texts)
def test_what_is_fresh_is_encoded_as_the_whole_would_be(
    question: str, answer: str, following: str, tokenizer: PromptTokenizer, model: str
) -> None:
    """With an answer in the tokenizer's own tokens, ids are those of all messages at once."""
    messages = [user(question), Message(role="assistant", content=answer), user(following)]
    whole = tokenizer.encode_messages(messages)
    transcript = Transcript.start(tokenizer, messages[:1])
    held = len(transcript.token_ids)
    stop = tokenizer.control.id_of(STOPS[model])
    if whole[:held] != transcript.token_ids or stop not in whole[held:]:
        return  # The seam between the opening of an answer and the answer itself.
    end = whole.index(stop, held) + 1
    grown = transcript.answer(whole[held:end], messages[1]).append(messages[2])
    assert grown.token_ids == whole


def test_ordinary_talk_never_breaks(tokenizer: PromptTokenizer, model: str) -> None:
    transcript = Transcript.start(tokenizer, [SYSTEM, user("Hi")])
    for number in range(6):
        ids = output(tokenizer, model, f" Hello, the {number}th time.\n", width=1 + number)
        answered = transcript.answer(ids)
        transcript = answered.append(user(f"And {number}?"))
        assert transcript.inherent is None
        assert transcript.token_ids[: len(answered.token_ids)] == answered.token_ids


CALL = ToolCall(id="call_1", name="price", arguments='{"who":"child", "n":1.50}')
CALLING = Message(role="assistant", content="", reasoning="A price.", tool_calls=(CALL,))
RESULT = Message(role="tool", content='{"price": 6.250}', tool_call_id="call_1")
CALL_TEXT = (
    "<think>\nA price.\n</think>\n\n"
    '<tool_call>\n{"name":"price", "arguments":{"who":"child", "n":1.50}}\n</tool_call>'
)


def agent(tokenizer: PromptTokenizer) -> Transcript:
    """After a tool call of Qwen3's, as the model wrote it, and its result."""
    started = Transcript.start(tokenizer, [user("What do children pay?")])
    called = started.answer(output(tokenizer, "qwen3", CALL_TEXT), CALLING)
    grown = called.append(RESULT)
    assert grown.token_ids[: len(called.token_ids)] == called.token_ids
    return grown


def test_a_call_stays_as_the_model_wrote_it(real_tokenizers: RealTokenizers) -> None:
    """Though the template would write its arguments with other spaces and numbers."""
    transcript = agent(real_tokenizers.load("qwen3"))
    assert transcript.inherent is None
    text = transcript.tokenizer.decode(transcript.token_ids)
    assert '"arguments":{"who":"child", "n":1.50}' in text
    assert '{"price": 6.250}' in text


def test_reasoning_is_left_out_where_the_template_does(real_tokenizers: RealTokenizers) -> None:
    """Qwen3 keeps reasoning until the user speaks again: quality comes before re-use."""
    qwen3 = real_tokenizers.load("qwen3")
    looped = agent(qwen3)
    final = Message(role="assistant", content="6.25.", reasoning="So.")
    answered = looped.answer(output(qwen3, "qwen3", "<think>\nSo.\n</think>\n\n6.25."), final)
    grown = answered.append(user("Thanks"))
    assert grown.inherent is not None
    assert grown.inherent.turn == 1
    assert "reasoning" in grown.inherent.cause
    first = Transcript.start(qwen3, [user("What do children pay?")])
    assert grown.inherent.token == len(first.token_ids)
    assert grown.token_ids == qwen3.encode_messages(grown.messages)
    assert f"token {len(first.token_ids)} of {len(answered.token_ids)}" in str(grown.inherent)


def test_reasoning_that_the_client_never_saw_is_not_kept_silently(
    real_tokenizers: RealTokenizers,
) -> None:
    qwen3 = real_tokenizers.load("qwen3")
    started = Transcript.start(qwen3, [user("Why?")])
    ids = output(qwen3, "qwen3", "<think>\nHm.\n</think>\n\nBecause.")
    grown = started.answer(ids, Message(role="assistant", content="Because.")).append(user("So?"))
    assert grown.inherent is not None
    assert grown.inherent.turn == 1
    assert "Hm." not in qwen3.decode(grown.token_ids)


def test_an_opening_that_is_not_kept_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An empty `<think>` block only in the last turn: QwenLM/Qwen3#1826."""
    tokenizer = _with_empty_thought(tmp_path_factory)
    started = Transcript.start(tokenizer, [user("Hi")])
    grown = started.answer(spelled(tokenizer, "Hello", 5)).append(user("So?"))
    assert grown.inherent is not None
    assert "opens an answer" in grown.inherent.cause
    assert grown.token_ids[: grown.inherent.token] == started.token_ids[: grown.inherent.token]


def _with_empty_thought(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    opening = CHATML.replace("assistant\n' }}", "assistant\n<think>\n\n</think>\n\n' }}")
    return load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("m"), chat_template=opening))


def test_a_hoisted_system_message_is_named(real_tokenizers: RealTokenizers) -> None:
    """DeepSeek V3 moves every system text to the front: jundot/omlx#3608."""
    deepseek = real_tokenizers.load("deepseek_v3")
    started = Transcript.start(deepseek, [SYSTEM, user("Hi")])
    answered = started.answer(output(deepseek, "deepseek_v3", "Hello"))
    grown = answered.append(Message(role="system", content="Now in French."), user("And?"))
    assert grown.inherent is not None
    assert grown.inherent.turn == 2 + 1
    assert grown.inherent.token < len(started.token_ids)


def test_a_message_before_any_answer_moves_the_opening(tokenizer: PromptTokenizer) -> None:
    one = Transcript.start(tokenizer, [user("Hi")])
    answered = one.answer(tokenizer.encode_messages([user("Hello")])[:0])
    with pytest.raises(ValueError, match="answer already"):
        answered.answer([])
    try:
        two = one.append(user("Quick!"))
    except ChatTemplateError:
        return  # Gemma's roles alternate.
    assert two.inherent is None
    assert two.token_ids == tokenizer.encode_messages([user("Hi"), user("Quick!")])


def test_a_clients_whole_conversation_is_followed(tokenizer: PromptTokenizer, model: str) -> None:
    answered = Transcript.start(tokenizer, [user("Hi")]).answer(
        output(tokenizer, model, "Hello"), Message(role="assistant", content="Hello")
    )
    grown = answered.follow([*answered.messages, user("So?")])
    assert grown == answered.append(user("So?"))


@pytest.mark.parametrize(
    ("messages", "turn", "offset"),
    [
        ([user("Ho"), Message(role="assistant", content="Hello"), user("So?")], 0, 1),
        ([user("Hi"), Message(role="assistant", content="Help"), user("So?")], 1, 3),
        ([user("Hi"), user("Hello"), user("So?")], 1, 5),
        ([user("Hi")], 1, 0),
    ],
)
def test_a_past_turn_cannot_be_edited(
    messages: Sequence[Message], turn: int, offset: int, real_tokenizers: RealTokenizers
) -> None:
    smollm2 = real_tokenizers.load("smollm2")
    answered = Transcript.start(smollm2, [user("Hi")]).answer(
        output(smollm2, "smollm2", "Hello"), Message(role="assistant", content="Hello")
    )
    with pytest.raises(TranscriptRewriteError, match=r"fork") as caught:
        answered.follow(messages)
    assert (caught.value.turn, caught.value.offset) == (turn, offset)


def test_a_branch_keeps_what_the_engine_holds(tokenizer: PromptTokenizer, model: str) -> None:
    one = Transcript.start(tokenizer, [SYSTEM, user("Hi")])
    two = one.answer(output(tokenizer, model, "Hello", width=1))
    three = two.append(user("So?"))
    four = three.answer(output(tokenizer, model, "Well"))
    assert four.fork(2) == one
    assert four.fork(3).token_ids == two.token_ids
    assert four.fork(3).append(user("So?")) == three
    assert four.fork(4) == three
    other = four.fork(3).append(user("Else?"))
    assert other.token_ids[: len(two.token_ids)] == two.token_ids
    with pytest.raises(IndexError):
        four.fork(0)
    with pytest.raises(IndexError):
        four.fork(9)
