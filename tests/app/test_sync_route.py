"""`POST /foreword/collections/{name}/sync`, and what it refuses."""

from typing import Any

import httpx
import pytest

from tests.gateways import add_collection


@pytest.fixture(scope="module")
def store(gateway: str) -> str:
    return add_collection(gateway, "synced", "The ferry is blue.")


def sync(gateway: str, store: str, **parts: Any) -> httpx.Response:
    url = f"{gateway}/foreword/collections/{store}/sync"
    return httpx.post(url, trust_env=False, **parts)


def form(*files: tuple[str, bytes], options: str = "{}") -> list[tuple[str, Any]]:
    return [("options", (None, options)), *(("file", file) for file in files)]


def test_several_files_in_one_call(gateway: str, store: str) -> None:
    sent = form(("a.txt", b"The dog is brown."), ("bad.pdf", b"no pdf"))
    done = sync(gateway, store, files=sent).json()
    assert (done["object"], done["vector_store_id"]) == ("foreword.sync", store)
    assert (done["added"], done["replaced"], done["unchanged"]) == (["a.txt"], [], [])
    assert done["failed"]["bad.pdf"]["code"] == "invalid_file"
    again = sync(gateway, store, files=form(("a.txt", b"The dog is brown."))).json()
    assert (again["unchanged"], again["embedded_chunks"]) == (["a.txt"], 0)
    options = '{"remove_missing": true, "keep": ["a.txt"]}'
    last = sync(gateway, "synced", files=form(options=options)).json()
    assert "synced.txt" in last["removed"]
    assert "a.txt" not in last["removed"]


@pytest.mark.parametrize(
    ("parts", "status", "param", "words"),
    [
        ({"json": {}}, 415, None, "multipart/form-data"),
        ({"files": form(options="{")}, 400, "options", "not JSON"),
        ({"files": form(options='{"colour": 1}')}, 400, "colour", "no such field"),
        ({"files": form(("a.txt", b""))}, 400, "file", "is empty"),
        ({"files": [("other", ("a.txt", b"x"))]}, 400, "other", "the fields are file"),
        ({"files": form(("a.txt", b"x"), ("a.txt", b"y"))}, 400, None, "given twice"),
    ],
)
def test_what_can_not_be_synced_is_told(
    gateway: str, store: str, parts: dict[str, Any], status: int, param: str | None, words: str
) -> None:
    answer = sync(gateway, store, **parts)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert words in error["message"]
    assert error["param"] == param


def test_an_unknown_collection_is_not_found(gateway: str) -> None:
    assert sync(gateway, "vs_none", files=form(("a.txt", b"x"))).status_code == 404
