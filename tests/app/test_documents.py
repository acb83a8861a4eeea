"""Files and collections through the OpenAI SDK, and questions about them."""

from pathlib import Path
from typing import Any

import openai
import pytest

SAMPLES = Path(__file__).parent.parent.parent / "samples" / "ferry"


@pytest.fixture(scope="module")
def ferry(client: openai.OpenAI) -> str:
    """The id of a collection that holds the sample documents."""
    store = client.vector_stores.create(name="ferry")
    for path in sorted(SAMPLES.iterdir()):
        file = client.files.create(file=path, purpose="assistants")
        held = client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
        assert held.status == "completed", held.last_error
    return store.id


def ask(client: openai.OpenAI, question: str, **foreword: Any) -> Any:
    return client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": question}],
        max_tokens=4,
        temperature=0,
        extra_body={"foreword": foreword},
    )


def test_a_file_comes_back_as_it_went(client: openai.OpenAI) -> None:
    data = b"The gate closes ten minutes before departure.\r\n"
    file = client.files.create(file=("gate.txt", data), purpose="assistants")
    assert file.bytes == len(data)
    assert client.files.retrieve(file.id).filename == "gate.txt"
    assert client.files.content(file.id).read() == data
    assert file.id in [f.id for f in client.files.list()]
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file.id)


def test_a_collection_counts_its_files(client: openai.OpenAI, ferry: str) -> None:
    store = client.vector_stores.retrieve(ferry)
    expected = len(list(SAMPLES.iterdir()))
    assert (store.file_counts.completed, store.file_counts.failed) == (expected, 0)
    assert store.foreword["documents"] == expected  # type: ignore[attr-defined]


def test_search_finds_the_passage(client: openai.OpenAI, ferry: str) -> None:
    page = client.vector_stores.search(ferry, query="How much does an adult ticket cost?")
    assert page.data[0].filename == "fares.md"
    scores = [result.score for result in page.data]
    assert scores == sorted(scores, reverse=True)


def test_a_file_that_can_not_be_read_is_kept_and_told(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="broken")
    file = client.files.create(file=("broken.pdf", b"%PDF-1.7 nonsense"), purpose="assistants")
    held = client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
    assert held.status == "failed"
    assert held.last_error is not None
    assert "broken.pdf" in held.last_error.message
    assert client.vector_stores.retrieve(store.id).file_counts.failed == 1
    with pytest.raises(openai.BadRequestError, match="holds no document yet; 1 file failed"):
        ask(client, "What?", collection="broken")


@pytest.mark.parametrize("mode", ["auto", "rag", "cag", "hybrid"])
def test_an_empty_question_is_refused_in_every_mode(
    client: openai.OpenAI, ferry: str, mode: str
) -> None:
    with pytest.raises(openai.BadRequestError, match="the last message is empty"):
        ask(client, " ", collection="ferry", mode=mode)


def test_a_mode_that_is_asked_for_is_used(client: openai.OpenAI, ferry: str) -> None:
    block = ask(client, "What does a dog pay?", collection="ferry", mode="rag").foreword
    assert (block["template"], block["collection"], block["mode"]) == ("docqa@2", "ferry", "rag")
    assert block["mode_reason"] == "the request asks for it"


def test_the_second_question_by_cag_reuses_nearly_all_of_the_prompt(
    client: openai.OpenAI, ferry: str
) -> None:
    for question in ("What does a dog pay?", "When does the ship sail in winter?"):
        block = ask(client, question, collection=ferry, mode="cag").foreword
    assert block["mode"] == "cag"
    assert block["cached_tokens"] / block["prompt_tokens"] >= 0.95


def test_two_questions_that_find_the_same_passages_share_them(
    client: openai.OpenAI, ferry: str
) -> None:
    first = ask(client, "dog ticket price", collection="ferry", mode="rag").foreword
    again = ask(client, "Price: dog, ticket?", collection="ferry", mode="rag").foreword
    assert again["cached_tokens"] > 0.8 * first["prompt_tokens"]


def test_a_conversation_about_documents_keeps_its_history(
    client: openai.OpenAI, ferry: str
) -> None:
    answer = client.chat.completions.create(
        model="default",
        messages=[
            {"role": "system", "content": "Answer in one word."},
            {"role": "user", "content": "What does a dog pay?"},
            {"role": "assistant", "content": "2 euros"},
            {"role": "user", "content": "And a bicycle?"},
        ],
        max_tokens=4,
        extra_body={"foreword": {"collection": "ferry", "mode": "cag"}},
    )
    assert answer.choices[0].message.content
    with pytest.raises(openai.BadRequestError, match="last message must be the user's"):
        client.chat.completions.create(
            model="default",
            messages=[{"role": "assistant", "content": "2 euros"}],
            extra_body={"foreword": {"collection": "ferry"}},
        )


def test_a_collection_too_large_for_the_window_is_refused_with_the_numbers(
    client: openai.OpenAI,
) -> None:
    store = client.vector_stores.create(name="large")
    text = "\n\n".join(f"Paragraph {n}: the ferry leaves at nine." for n in range(1500))
    file = client.files.create(file=("large.txt", text.encode()), purpose="assistants")
    client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
    with pytest.raises(openai.BadRequestError, match="8,192 tokens; ask with mode rag") as caught:
        ask(client, "When?", collection="large", mode="cag")
    assert caught.value.code == "context_length_exceeded"
    assert ask(client, "When?", collection="large").foreword["mode"] == "rag"
