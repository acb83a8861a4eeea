"""Bodies of `/v1/vector_stores`: OpenAI's fields and limits, and nothing else."""

from typing import Any

import pytest
from pydantic import ValidationError

from app.errors import InvalidRequestError
from app.vector_stores.bodies import (
    FileBatchCreate,
    VectorStoreCreate,
    VectorStoreFileCreate,
    VectorStoreModify,
    VectorStoreSearch,
    check_chunking,
    check_search,
)

STATIC = {"max_chunk_size_tokens": 192, "chunk_overlap_tokens": 0}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"metadata": {str(n): "" for n in range(17)}}, "at most 16"),
        ({"metadata": {"k" * 65: ""}}, "at most 64"),
        ({"metadata": {"k": "v" * 513}}, "at most 512"),
        ({"metadata": {"k": 3}}, "valid string"),
        ({"metadata": {"k": "\x00"}}, "NUL"),
        ({"expires_after": {"anchor": "created_at", "days": 3}}, "last_active_at"),
        ({"expires_after": {"anchor": "last_active_at", "days": 366}}, "365"),
        ({"description": "x"}, "not permitted"),
        ({"chunking_strategy": {"type": "semantic"}}, "'auto', 'static'"),
        ({"file_ids": ["f"] * 501}, "at most 500"),
        ({"foreword": {"mode": "magic"}}, "'auto', 'rag'"),
        ({"foreword": {"colour": 1}}, "not permitted"),
    ],
)
def test_what_a_vector_store_can_not_have(body: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        VectorStoreCreate.model_validate(body)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({str(n): "" for n in range(17)}, "at most 16"),
        ({"k": "v" * 513}, "at most 512"),
        ({"k": None}, "attributes.k"),
        ({"k": []}, "attributes.k"),
    ],
)
def test_what_an_attribute_can_not_be(attributes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        VectorStoreFileCreate.model_validate({"file_id": "f", "attributes": attributes})


def test_attributes_keep_their_kinds() -> None:
    given = {"year": 2024, "draft": True, "price": 1.5, "name": "1"}
    body = VectorStoreFileCreate.model_validate({"file_id": "f", "attributes": given})
    assert body.attributes == given
    assert body.attributes is not None
    assert body.attributes["draft"] is True
    assert isinstance(body.attributes["name"], str)


def test_only_what_is_given_is_changed() -> None:
    assert VectorStoreModify.model_validate({}).changes() == {}
    assert VectorStoreModify.model_validate({"name": None}).changes() == {}
    cleared = {"metadata": None, "expires_after": None, "foreword": {"mode": None}}
    assert VectorStoreModify.model_validate(cleared).changes() == {
        "metadata": {},
        "expires_after_days": None,
        "mode": None,
    }
    full = {
        "name": "x",
        "metadata": {"a": "b"},
        "expires_after": {"anchor": "last_active_at", "days": 7},
        "foreword": {"mode": "cag", "priority": 5},
    }
    assert VectorStoreModify.model_validate(full).changes() == {
        "name": "x",
        "metadata": {"a": "b"},
        "expires_after_days": 7,
        "mode": "cag",
        "priority": 5,
    }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "either file_ids or files"),
        ({"file_ids": ["a"], "files": [{"file_id": "a"}]}, "either file_ids or files"),
        ({"files": [{"file_id": "a"}], "attributes": {"k": 1}}, "attributes and options"),
        ({"files": [{"file_id": "a"}, {"file_id": "a"}]}, "'a' is named twice"),
        ({"file_ids": []}, "at least 1"),
    ],
)
def test_a_batch_has_one_list_of_files(body: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FileBatchCreate.model_validate(body)


def test_a_batchs_files_have_its_attributes_or_their_own() -> None:
    common = {"attributes": {"k": 1.0}, "foreword": {"access": ["hr"]}}
    each = FileBatchCreate.model_validate({"file_ids": ["a", "b"], **common}).each()
    assert [file.file_id for file in each] == ["a", "b"]
    assert all(f.attributes == {"k": 1.0} and f.foreword.access == ["hr"] for f in each)
    own = [{"file_id": "a", "attributes": {"k": 1}}, {"file_id": "b"}]
    files = FileBatchCreate.model_validate({"files": own}).each()
    assert [file.attributes for file in files] == [{"k": 1}, None]


def test_sizes_of_passages_are_those_of_the_deployment() -> None:
    def chunking(**sizes: int) -> Any:
        given = {"type": "static", "static": STATIC | sizes}
        return VectorStoreCreate.model_validate({"chunking_strategy": given}).chunking_strategy

    check_chunking(None, chunk_tokens=192)
    check_chunking(chunking(), chunk_tokens=192)
    for sizes in ({"max_chunk_size_tokens": 800}, {"chunk_overlap_tokens": 50}):
        with pytest.raises(InvalidRequestError, match="at most 192 tokens without overlap"):
            check_chunking(chunking(**sizes), chunk_tokens=192)


def test_a_search_has_one_query_or_several() -> None:
    assert VectorStoreSearch(query="a").queries == ["a"]
    assert VectorStoreSearch(query=["a", "b"]).queries == ["a", "b"]
    for query in ("", [], [""], ["a"] * 17):
        with pytest.raises(ValidationError):
            VectorStoreSearch.model_validate({"query": query})
    with pytest.raises(InvalidRequestError, match="rewrite the query yourself"):
        check_search(VectorStoreSearch(query="a", rewrite_query=True))
