"""`/v1/vector_stores` through the unmodified OpenAI SDK: its helpers, its types, its pages."""

import asyncio
import time
from typing import Any

import httpx
import openai
import pytest

from tests.app.openai_objects import exact

POLL = {"poll_interval_ms": 20}
TEXTS = {
    "dog.txt": "A dog pays two euros on the ferry. " * 3,
    "gate.txt": "The gate closes ten minutes before departure. " * 3,
    "wind.txt": "In a storm the lighthouse is closed to visitors. " * 3,
}


def upload(client: openai.OpenAI, name: str, text: str) -> str:
    return client.files.create(file=(name, text.encode()), purpose="assistants").id


@pytest.fixture
def store(client: openai.OpenAI) -> str:
    return client.vector_stores.create(name="stage").id


@pytest.fixture(scope="module")
def filled(client: openai.OpenAI) -> str:
    """A vector store with three files, their years and the last one's readers."""
    store = client.vector_stores.create(name="filled").id
    for year, (name, text) in enumerate(TEXTS.items(), start=2022):
        options: Any = {"foreword": {"access": ["crew"]}} if name == "wind.txt" else {}
        held = client.vector_stores.files.create(
            store,
            file_id=upload(client, name, text),
            attributes={"year": year, "name": name},
            extra_body=options,
        )
        done = client.vector_stores.files.poll(held.id, vector_store_id=store, **POLL)
        assert done.status == "completed", done.last_error
    return store


def test_a_vector_store_is_made_described_and_deleted(client: openai.OpenAI) -> None:
    expiry: Any = {"anchor": "last_active_at", "days": 7}
    made = exact(
        client.vector_stores.create(name="one", metadata={"team": "a"}, expires_after=expiry)
    )
    assert (made.name, made.metadata, made.status) == ("one", {"team": "a"}, "completed")
    assert made.expires_after is not None
    assert made.last_active_at is not None
    assert made.expires_at == made.last_active_at + 7 * 86_400
    assert made.file_counts.total == made.usage_bytes == 0
    assert exact(client.vector_stores.retrieve(made.id)).id == made.id
    changed = exact(client.vector_stores.update(made.id, name="two", metadata=None))
    assert (changed.name, changed.metadata) == ("two", {})
    assert changed.expires_after == made.expires_after, "what is left out stays"
    assert client.vector_stores.update(made.id, expires_after=None).expires_at is None
    assert exact(client.vector_stores.delete(made.id)).deleted
    with pytest.raises(openai.NotFoundError, match="no collection"):
        client.vector_stores.retrieve(made.id)


def test_a_vector_store_needs_no_name(client: openai.OpenAI) -> None:
    assert exact(client.vector_stores.create()).name == ""


def test_a_vector_store_takes_files_at_once(client: openai.OpenAI) -> None:
    ids = [upload(client, name, text) for name, text in TEXTS.items()]
    made = client.vector_stores.create(name="at once", file_ids=ids)
    assert made.file_counts.total == len(ids)
    for file_id in ids:
        client.vector_stores.files.poll(file_id, vector_store_id=made.id, **POLL)
    done = exact(client.vector_stores.retrieve(made.id))
    assert (done.status, done.file_counts.completed) == ("completed", len(ids))
    assert done.usage_bytes > 0
    with pytest.raises(openai.NotFoundError, match="file-none"):
        client.vector_stores.create(name="none", file_ids=["file-none"])
    assert not [s for s in client.vector_stores.list() if s.name == "none"], "nothing was made"


def test_pages_of_vector_stores(client: openai.OpenAI) -> None:
    made = [client.vector_stores.create(name="paged").id for _ in range(5)]
    listed = client.vector_stores.list(limit=2)
    assert [store.id for store in listed.data] == made[:-3:-1]
    assert [store.id for store in listed][:5] == made[::-1], "the SDK follows the pages"
    named = client.vector_stores.list(extra_query={"name": "paged"}, order="asc", limit=3)
    assert [store.id for store in named.data] == made[:3]
    before = client.vector_stores.list(before=made[4], order="asc", limit=2)
    assert [store.id for store in before.data] == made[2:4]


def test_the_sdks_helpers_upload_and_poll(client: openai.OpenAI, store: str) -> None:
    files = client.vector_stores.files
    one = exact(
        files.upload_and_poll(vector_store_id=store, file=("a.txt", b"The ferry is blue."), **POLL)
    )
    assert (one.status, one.vector_store_id, one.last_error) == ("completed", store, None)
    assert one.usage_bytes > 0
    assert one.chunking_strategy is not None
    other = upload(client, "b.txt", "The dog is brown.")
    again = files.create_and_poll(
        other, vector_store_id=store, attributes={"year": 2024, "draft": True}, **POLL
    )
    assert again.attributes == {"year": 2024, "draft": True}
    assert [file.id for file in files.list(store)] == [other, one.id]
    assert [file.id for file in files.list(store, order="asc", limit=1)] == [one.id, other]
    assert [file.id for file in files.list(store, filter="failed")] == []
    page = files.content(one.id, vector_store_id=store)
    assert [part.text for part in page] == ["The ferry is blue."]
    assert exact(files.delete(one.id, vector_store_id=store)).deleted
    with pytest.raises(openai.NotFoundError, match="doesn't hold"):
        files.retrieve(one.id, vector_store_id=store)
    assert client.files.retrieve(one.id).id == one.id, "the file itself stays"


def test_the_async_client_polls_too(gateway: str) -> None:
    async def run() -> str:
        async with openai.AsyncOpenAI(base_url=f"{gateway}/v1", api_key="unused") as client:
            store = await client.vector_stores.create(name="async")
            held = await client.vector_stores.files.upload_and_poll(
                vector_store_id=store.id, file=("a.txt", b"The ferry is blue."), **POLL
            )
            found = await client.vector_stores.search(store.id, query="ferry")
            return f"{held.status} {found.data[0].filename}"

    assert asyncio.run(run()) == "completed a.txt"


def test_a_file_that_is_there_already_stays(client: openai.OpenAI, store: str) -> None:
    file_id = upload(client, "a.txt", "The ferry is blue.")
    first: Any = client.vector_stores.files.create_and_poll(file_id, vector_store_id=store, **POLL)
    again: Any = client.vector_stores.files.create(store, file_id=file_id)
    assert again.status == "completed"
    assert again.foreword["unchanged"] is True
    assert again.created_at == first.created_at
    assert client.vector_stores.retrieve(store).file_counts.total == 1


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("broken.pdf", b"%PDF-1.7 nonsense", "invalid_file"),
        ("picture.png", b"\x89PNG\r\n\x1a\n" + b"\x00" * 40, "invalid_file"),
        ("bytes.txt", b"\xff\xfe\x00\xd8" * 10, "invalid_file"),
        ("blank.txt", b"  \n\n ", "invalid_file"),
    ],
)
def test_a_file_that_can_not_be_read_is_kept_and_told(
    client: openai.OpenAI, store: str, name: str, data: bytes, code: str
) -> None:
    held = exact(
        client.vector_stores.files.upload_and_poll(vector_store_id=store, file=(name, data), **POLL)
    )
    assert held.status == "failed"
    assert held.last_error is not None
    assert held.last_error.code == code
    assert name in held.last_error.message
    assert client.vector_stores.retrieve(store).file_counts.failed == 1
    listed = client.vector_stores.files.list(store, filter="failed")
    assert [file.id for file in listed] == [held.id]


def test_attributes_are_replaced(client: openai.OpenAI, store: str) -> None:
    file_id = upload(client, "a.txt", "The ferry is blue.")
    files = client.vector_stores.files
    files.create_and_poll(file_id, vector_store_id=store, attributes={"a": 1, "b": "x"}, **POLL)
    changed: Any = exact(files.update(file_id, vector_store_id=store, attributes={"b": True}))
    assert changed.attributes == {"b": True}
    found = client.vector_stores.search(store, query="ferry")
    assert found.data[0].attributes == {"b": True}
    body: Any = {"foreword": {"access": ["hr"]}}
    kept: Any = files.update(file_id, vector_store_id=store, attributes={"c": 1}, extra_body=body)
    assert kept.foreword["access"] == ["hr"]
    assert client.vector_stores.search(store, query="ferry").data == []


def test_a_batch_of_files(client: openai.OpenAI, store: str) -> None:
    batches = client.vector_stores.file_batches
    uploads = [(name, text.encode()) for name, text in TEXTS.items()]
    done = exact(batches.upload_and_poll(store, files=uploads, **POLL))
    assert (done.status, done.file_counts.completed, done.file_counts.total) == ("completed", 3, 3)
    held = list(batches.list_files(done.id, vector_store_id=store, limit=2))
    assert len(held) == 3
    assert all(file.status == "completed" for file in held)
    assert exact(batches.retrieve(done.id, vector_store_id=store)).id == done.id
    with pytest.raises(openai.NotFoundError, match="no file batch 'vsfb_none'"):
        batches.retrieve("vsfb_none", vector_store_id=store)


def test_a_batchs_files_have_their_own_attributes(client: openai.OpenAI, store: str) -> None:
    ids = [upload(client, name, text) for name, text in TEXTS.items()]
    files: Any = [
        {"file_id": file_id, "attributes": {"place": place}} for place, file_id in enumerate(ids)
    ]
    client.vector_stores.file_batches.create_and_poll(store, files=files, **POLL)
    held = client.vector_stores.files.list(store, order="asc")
    assert [file.attributes for file in held] == [{"place": place} for place in range(3)]


def test_a_batch_can_be_cancelled(client: openai.OpenAI, store: str) -> None:
    long = "\n\n".join(f"Paragraph {n} about the ferry." for n in range(3000))
    ids = [upload(client, f"long{n}.txt", f"{n} {long}") for n in range(4)]
    batches = client.vector_stores.file_batches
    made = batches.create(store, file_ids=ids)
    cancelled = exact(batches.cancel(made.id, vector_store_id=store))
    counts = cancelled.file_counts
    assert counts.cancelled + counts.completed == counts.total == len(ids)
    assert counts.cancelled > 0
    assert cancelled.status == "cancelled"


def test_search_finds_filters_and_keeps_groups_apart(client: openai.OpenAI, filled: str) -> None:
    def found(query: Any, **fields: Any) -> list[str]:
        page = client.vector_stores.search(filled, query=query, **fields)
        return [exact(result).filename for result in page.data]

    assert found("What does a dog pay?")[0] == "dog.txt"
    assert set(found("dog gate storm")) == {"dog.txt", "gate.txt"}
    crew: Any = {"foreword": {"groups": ["crew"]}}
    assert "wind.txt" in found("dog gate storm", extra_body=crew)
    later: Any = {"type": "gte", "key": "year", "value": 2023}
    assert found("dog gate storm", filters=later) == ["gate.txt"]
    both: Any = {"type": "or", "filters": [later, {"type": "eq", "key": "name", "value": "x"}]}
    assert found("dog gate storm", filters=both) == ["gate.txt"]
    assert found("dog gate storm", max_num_results=1) == found("dog gate storm")[:1]
    assert set(found(["dog", "gate"])) == {"dog.txt", "gate.txt"}
    threshold: Any = {"score_threshold": 1.0}
    assert len(found("unrelated words", ranking_options=threshold)) <= 1


def test_a_result_has_its_passage_and_scores(client: openai.OpenAI, filled: str) -> None:
    page: Any = client.vector_stores.search(filled, query=["What does a dog pay?", "dog"])
    assert page.search_query == ["What does a dog pay?", "dog"]
    assert page.has_more is False
    best = page.data[0]
    assert "two euros" in best.content[0].text
    assert best.attributes == {"year": 2022, "name": "dog.txt"}
    assert 0 < best.score <= 1
    scores = [result.score for result in page.data]
    assert scores == sorted(scores, reverse=True)
    assert best.foreword["end"] > best.foreword["start"] == 0
    assert len({result.foreword["chunk_id"] for result in page.data}) == len(page.data)


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"query": ""}, "query", "at least 1"),
        ({"query": "x", "max_num_results": 51}, "max_num_results", "50"),
        ({"query": "x", "rewrite_query": True}, "rewrite_query", "rewrite the query yourself"),
        ({"query": "x", "filters": {"type": "like", "key": "a", "value": 1}}, None, "filter"),
        ({"query": "x", "ranking_options": {"ranker": "mine"}}, "ranking_options.ranker", "none"),
        ({"query": "x", "extra_body": {"colour": 1}}, "colour", "no such field"),
    ],
)
def test_bad_searches_are_told(
    client: openai.OpenAI, filled: str, fields: dict[str, Any], param: str | None, words: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.vector_stores.search(filled, **fields)
    assert words in caught.value.message
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("method", "path", "body", "param"),
    [
        ("POST", "", {"name": "x", "description": "y"}, "description"),
        ("POST", "", {"name": "x" * 201}, "name"),
        ("POST", "", {"metadata": {"k": "v" * 513}}, "metadata.k"),
        ("POST", "/{store}", {"colour": 1}, "colour"),
        ("POST", "/{store}/files", {"file_id": "f", "attributes": {"k": None}}, "attributes.k"),
        ("POST", "/{store}/files", {}, "file_id"),
        ("POST", "/{store}/files/f", {}, "attributes"),
        ("POST", "/{store}/file_batches", {}, None),
        ("GET", "?limit=101", None, "limit"),
        ("GET", "/{store}/files?filter=lost", None, "filter"),
    ],
)
def test_bad_bodies_are_told_in_openais_shape(
    gateway: str, filled: str, method: str, path: str, body: Any, param: str | None
) -> None:
    url = f"{gateway}/v1/vector_stores{path.format(store=filled)}"
    answer = httpx.request(method, url, json=body, trust_env=False)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    if param is not None:
        assert error["param"] == param


def test_sizes_of_passages_are_refused_with_those_that_hold(
    client: openai.OpenAI, store: str
) -> None:
    sizes: Any = {
        "type": "static", "static": {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400},
    }  # fmt: skip
    with pytest.raises(openai.BadRequestError, match="at most 192 tokens") as caught:
        client.vector_stores.files.create(store, file_id="f", chunking_strategy=sizes)
    assert caught.value.param == "chunking_strategy"
    held = client.vector_stores.files.upload_and_poll(
        vector_store_id=store,
        file=("a.txt", b"The ferry is blue."),
        chunking_strategy={"type": "auto"},
        **POLL,
    )
    told: Any = held.chunking_strategy
    ours = told.model_dump()
    again = upload(client, "b.txt", "The dog is brown.")
    client.vector_stores.files.create(store, file_id=again, chunking_strategy=ours)


def test_deleting_while_asking_gives_an_answer_or_not_found(
    client: openai.OpenAI, gateway: str
) -> None:
    async def run() -> list[int]:
        async with openai.AsyncOpenAI(
            base_url=f"{gateway}/v1", api_key="unused", max_retries=0
        ) as asker:
            store = await asker.vector_stores.create(name="short-lived")
            await asker.vector_stores.files.upload_and_poll(
                vector_store_id=store.id, file=("a.txt", b"The ferry is blue."), **POLL
            )

            async def ask(number: int) -> int:
                tool: Any = {"type": "file_search", "vector_store_ids": [store.id]}
                try:
                    await asker.responses.create(
                        model="default",
                        input=f"Question {number}?",
                        tools=[tool],
                        max_output_tokens=2,
                    )
                except openai.APIStatusError as error:
                    return error.status_code
                return 200

            async def delete() -> int:
                await asyncio.sleep(0.05)
                await asker.vector_stores.delete(store.id)
                return 200

            return await asyncio.gather(*(ask(n) for n in range(20)), delete(), ask(99))

    assert set(asyncio.run(run())) <= {200, 404}


def test_a_file_that_is_deleted_is_found_no_more(client: openai.OpenAI, store: str) -> None:
    held = client.vector_stores.files.upload_and_poll(
        vector_store_id=store, file=("gone.txt", b"The ferry sank."), **POLL
    )
    client.files.delete(held.id)
    assert client.vector_stores.search(store, query="ferry").data == []
    assert client.vector_stores.retrieve(store).file_counts.total == 0


def test_progress_is_told_while_a_file_is_worked_on(client: openai.OpenAI, store: str) -> None:
    text = "\n\n".join(f"Paragraph {n} about the ferry and the dog." for n in range(20_000))
    file_id = upload(client, "long.txt", text)
    client.vector_stores.files.create(store, file_id=file_id)
    search: Any = {"type": "file_search", "vector_store_ids": [store]}
    with pytest.raises(openai.BadRequestError, match="1 file still to be read") as caught:
        client.responses.create(
            model="default",
            input="When?",
            tools=[search],
            extra_body={"foreword": {"mode": "rag"}},
        )
    assert caught.value.param == "tools"
    stages = set()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        held: Any = client.vector_stores.files.retrieve(file_id, vector_store_id=store)
        if held.status != "in_progress":
            break
        stages.add(held.foreword["progress"]["stage"])
    assert held.status == "completed"
    assert held.foreword["progress"] is None
    assert stages <= {"waiting", "reading", "embedding", "storing", "ended"}
    assert stages
