"""A follow-up re-uses everything before its own text, whatever the model said and was shown."""

from pathlib import Path
from typing import Any

import openai
import pytest

from app.conversations import Conversations, Turn, conversation_keys
from app.schemas import Mode
from prompts import Message, Prompt, RenderedSegment, Volatility, load_tokenizer

SAMPLES = Path(__file__).parent.parent.parent / "samples" / "ferry"
SALT = "salt"
PAGE_TOKENS = 16


def prompt(*messages: Message) -> Prompt:
    segment = RenderedSegment(
        id="c", role="", volatility=Volatility.TURN, text="", message=0, expanded=messages
    )
    return Prompt(template="chat@1", segments=(segment,))


def user(text: str) -> Message:
    return Message(role="user", content=text)


def test_a_follow_up_begins_with_the_ids_that_the_model_gave(tokenizer_folder: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    conversations = Conversations()
    first = prompt(user("When?"))
    asked = tokenizer.tokenize(first)
    sent = asked.token_ids
    # Letter by letter, as no encoder would spell it.
    output = [i for letter in "nine" for i in tokenizer.encoder.encode(letter).ids]
    answer = Message(role="assistant", content="nine")
    conversations.answered(
        SALT, asked, tokenizer, output_ids=output, answer=answer, transcript=None
    )
    following = prompt(user("When?"), answer, user("And back?"))
    said = conversations.said(SALT, following, tokenizer)
    assert said is not None
    assert not said.is_begun_by(tokenizer.tokenize(following))
    resumed = said.follow(tokenizer, following.messages)
    assert resumed is not None
    assert resumed.token_ids[: len(sent) + len(output)] == (*sent, *output)
    assert tokenizer.decode(resumed.token_ids) == tokenizer.decode(
        tokenizer.tokenize(following).token_ids
    )
    assert conversations.said("other", following, tokenizer) is None
    other = prompt(user("When?"), Message(role="assistant", content="ten"), user("And back?"))
    assert conversations.said(SALT, other, tokenizer) is None
    assert conversations.said(SALT, first, tokenizer) is None


@pytest.mark.parametrize("answer", ["nine", "\nnine", " at ten. "])
def test_where_its_text_is_encoded_as_it_was_said_no_transcript_is_needed(
    tokenizer_folder: Path, answer: str
) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    conversations = Conversations()
    asked = tokenizer.tokenize(prompt(user("When?")))
    said = Message(role="assistant", content=answer)
    following = tokenizer.tokenize(prompt(user("When?"), said, user("And back?")))
    output = tokenizer.encoder.encode(answer, add_special_tokens=False).ids
    conversations.answered(SALT, asked, tokenizer, output_ids=output, answer=said, transcript=None)
    known = conversations.said(SALT, following.prompt, tokenizer)
    assert known is not None
    held = (*asked.token_ids, *output)
    begins = following.token_ids[: len(held)] == held
    assert known.is_begun_by(following) == begins
    resumed = known.follow(tokenizer, following.prompt.messages)
    assert resumed is not None
    if begins:
        assert resumed.token_ids == following.token_ids


def test_what_is_remembered_is_bounded_and_long_texts_are_kept_once(tokenizer_folder: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    conversations = Conversations(max_bytes=100_000)
    corpus = Message(role="system", content="The ferry leaves. " * 1000)
    for number in range(200):
        text = str(corpus.content)
        asked = tokenizer.tokenize(prompt(Message(role="system", content=text), user(f"{number}?")))
        answer = Message(role="assistant", content="No.")
        conversations.answered(
            SALT, asked, tokenizer, output_ids=[1, 2], answer=answer, transcript=None
        )
        assert conversations.held_bytes <= 100_000
        conversations.keep_turn(
            bytes([number]), Turn(mode=Mode.RAG, revision=1, excerpts=(), content="x" * 500)
        )
    assert conversations.turn(bytes([199])) is not None
    assert conversations.turn(bytes([0])) is None
    assert conversations.held_bytes > 50_000


def test_keys_tell_conversations_apart() -> None:
    messages = [user("a"), Message(role="assistant", content="b"), user("c")]
    keys = conversation_keys(["x"], messages)
    assert keys[:2] == conversation_keys(["x"], messages[:2])
    assert keys != conversation_keys(["y"], messages)
    assert conversation_keys(["ab", "c"], messages) != conversation_keys(["a", "bc"], messages)
    reasoned = [messages[0], Message(role="assistant", content="b", reasoning="Hm."), messages[2]]
    assert conversation_keys(["x"], reasoned) == keys


@pytest.fixture(scope="module")
def ferry(client: openai.OpenAI) -> str:
    store = client.vector_stores.create(name="ferry-talk")
    for path in sorted(SAMPLES.iterdir()):
        file = client.files.create(file=path, purpose="assistants")
        client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
    return store.id


def say(client: openai.OpenAI, messages: list[Any], **foreword: Any) -> Any:
    """The `foreword` block of the answer; the messages gain the answer.

    `held_tokens` is added: what the engine holds after it, in whole pages. The last token that it
    gave was never computed.
    """
    answer = client.chat.completions.create(
        model="default",
        messages=messages,
        max_tokens=12,
        temperature=0,
        extra_body={"foreword": foreword},
    )
    messages.append({"role": "assistant", "content": answer.choices[0].message.content})
    assert answer.usage is not None
    held = answer.usage.total_tokens - 1
    block: dict[str, Any] = answer.foreword  # type: ignore[attr-defined]
    return block | {"held_tokens": held - held % PAGE_TOKENS}


@pytest.mark.parametrize("mode", ["rag", "cag"])
def test_a_follow_up_about_documents_re_uses_everything_before_it(
    client: openai.OpenAI, ferry: str, mode: str
) -> None:
    messages: list[Any] = [{"role": "system", "content": f"Be brief ({mode})."}]
    messages.append({"role": "user", "content": "What does a dog pay?"})
    before = say(client, messages, collection=ferry, mode=mode)
    for question in ("And a bicycle in winter?", "When does the last ship leave?"):
        messages.append({"role": "user", "content": question})
        block = say(client, messages, collection=ferry)
        assert (block["mode"], block["mode_reason"]) == (
            mode,
            f"its conversation began with {mode}",
        )
        assert block["cached_tokens"] >= before["held_tokens"], (before, block)
        assert block["verdict"] == "hit"
        before = block


def test_a_follow_up_without_a_collection_too(client: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "Tell me of the sea, a ferry and a gull."}]
    before = say(client, messages)
    messages.append({"role": "user", "content": "And of the shore?"})
    assert say(client, messages)["cached_tokens"] >= before["held_tokens"]


def test_excerpts_are_not_shown_twice(client: openai.OpenAI, ferry: str) -> None:
    messages: list[Any] = [{"role": "user", "content": "What does a dog pay on the ferry?"}]
    first = say(client, messages, collection=ferry, mode="rag")
    messages.append({"role": "user", "content": "What does a dog pay on the ferry?"})
    again = say(client, messages, collection=ferry, mode="rag")
    # All that it would find is there: it adds its own question alone.
    assert again["prompt_tokens"] - first["held_tokens"] < 60
