"""`/v1/files` through the unmodified OpenAI SDK and plain HTTP."""

from typing import Any

import httpx
import openai
import pytest

from tests.app.openai_objects import exact


def upload(client: openai.OpenAI, name: str, text: str, **fields: Any) -> openai.types.FileObject:
    given: dict[str, Any] = {"purpose": "assistants"} | fields
    return client.files.create(file=(name, text.encode()), **given)


def test_a_file_comes_back_as_it_went(client: openai.OpenAI) -> None:
    data = b"The gate closes ten minutes before departure.\r\n\xff"
    file = exact(client.files.create(file=("gate.txt", data), purpose="assistants"))
    assert (file.bytes, file.filename, file.status) == (len(data), "gate.txt", "processed")
    assert exact(client.files.retrieve(file.id)) == file
    assert client.files.content(file.id).read() == data
    assert exact(client.files.delete(file.id)).deleted
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            call(file.id)
        assert caught.value.code == "file_not_found"


def test_the_same_upload_is_the_same_file(client: openai.OpenAI) -> None:
    first, again = upload(client, "twice.txt", "x"), upload(client, "twice.txt", "x")
    assert first.id == again.id
    assert upload(client, "other.txt", "x").id != first.id
    assert upload(client, "twice.txt", "x", purpose="user_data").id != first.id


def test_names_may_be_in_any_script(client: openai.OpenAI) -> None:
    name = "Fährplan 東京 9.41\u202fAM.txt"
    assert client.files.retrieve(upload(client, name, "x").id).filename == name


def test_pages_of_files(client: openai.OpenAI) -> None:
    made = [upload(client, f"page{n}.txt", "x", purpose="batch").id for n in range(5)]
    listed = client.files.list(purpose="batch", limit=2)
    assert [file.id for file in listed.data] == made[:-3:-1]
    assert listed.has_more
    assert [file.id for file in listed] == made[::-1], "the SDK follows the pages"
    ascending = client.files.list(purpose="batch", order="asc", limit=3)
    assert [file.id for file in ascending.data] == made[:3]
    after = client.files.list(purpose="batch", order="asc", after=made[3])
    assert ([file.id for file in after.data], after.has_more) == (made[4:], False)
    with pytest.raises(openai.BadRequestError) as caught:
        client.files.list(after="file-none")
    assert caught.value.param == "after"


@pytest.mark.parametrize(
    ("parts", "data", "param", "words"),
    [
        ({"file": ("a.txt", b"")}, {"purpose": "assistants"}, "file", "'a.txt' is empty"),
        ({"file": ("a.txt", b"x")}, {}, "purpose", "must be one of"),
        ({"file": ("a.txt", b"x")}, {"purpose": "fine-tune"}, "purpose", "must be one of"),
        ({"other": ("a.txt", b"x")}, {"purpose": "assistants"}, "other", "not a field"),
        ({"file": ("a.txt", b"x")}, {"purpose": "assistants", "colour": "1"}, "colour", "refused"),
        ({"file": (None, b"x")}, {"purpose": "assistants"}, "file", "called file"),
        ({"file": ("x" * 600, b"x")}, {"purpose": "assistants"}, "file", "at most 512"),
    ],
)
def test_what_is_no_upload_is_told(
    gateway: str, parts: Any, data: dict[str, str], param: str, words: str
) -> None:
    answer = httpx.post(f"{gateway}/v1/files", files=parts, data=data, trust_env=False)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == param
    assert words in error["message"]


def test_an_expiry_is_refused_by_name(client: openai.OpenAI) -> None:
    expiry: Any = {"anchor": "created_at", "seconds": 3600}
    with pytest.raises(openai.BadRequestError, match="a vector store can expire") as caught:
        upload(client, "a.txt", "x", expires_after=expiry)
    assert caught.value.param == "expires_after"


def test_a_body_of_another_kind_is_a_415(gateway: str) -> None:
    answer = httpx.post(f"{gateway}/v1/files", json={"purpose": "assistants"}, trust_env=False)
    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "unsupported_media_type"


def test_a_body_that_is_no_form_is_a_400(gateway: str) -> None:
    headers = {"content-type": "multipart/form-data; boundary=x"}
    for content in (b"", b"--x", b"\xff\xfe" * 50, b"--x\r\nno header\r\n\r\n--x--"):
        answer = httpx.post(
            f"{gateway}/v1/files", content=content, headers=headers, trust_env=False
        )
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["type"] == "invalid_request_error"


def test_two_files_at_once_are_refused(gateway: str) -> None:
    parts = [("file", ("a.txt", b"x")), ("file", ("b.txt", b"y"))]
    answer = httpx.post(
        f"{gateway}/v1/files", files=parts, data={"purpose": "assistants"}, trust_env=False
    )
    assert answer.status_code == 400


def test_unknown_parameters_of_a_list_are_refused_by_name(gateway: str) -> None:
    for query in ("colour=1", "limit=0", "limit=10001", "order=random"):
        answer = httpx.get(f"{gateway}/v1/files?{query}", trust_env=False)
        assert answer.status_code == 400, query
        assert answer.json()["error"]["param"] == query.split("=")[0]
