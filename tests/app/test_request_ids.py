"""A request that is refused before it is sent has an id, too."""

import httpx
import pytest

_HELLO = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", {"model": "default", "messages": "no list"}, 400),
        ("/v1/chat/completions", {"model": "nobody", "messages": [_HELLO]}, 404),
        ("/v1/responses", {"model": "default", "input": 5}, 400),
    ],
)
def test_what_is_refused_names_its_id(
    gateway: str, path: str, body: dict[str, object], status: int
) -> None:
    answer = httpx.post(f"{gateway}{path}", json=body)
    assert answer.status_code == status
    assert "error" in answer.json()
    first, second = (
        httpx.post(f"{gateway}{path}", json=body).headers["x-request-id"] for _ in range(2)
    )
    assert first != second
    assert first.startswith(("chatcmpl-", "resp_"))
