"""Each of OpenAI's routes is served, or refused by its own name."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from app.openapi import OPERATIONS
from app.unserved import unserved

_CALL = re.compile(
    r"self\._(get|post|delete|put|patch|get_api_list)\(\s*(?:path_template\()?\s*f?\"(/[^\"?]*)"
)
_SERVED = {
    (method, re.sub(r"\{[^}]*\}", "{}", path).removeprefix("/v1")) for method, path in OPERATIONS
}


def of_the_sdk() -> Iterator[tuple[str, str]]:
    """Method and path; what an organisation's administrators ask for is no part of the API."""
    resources = Path(openai.__file__).parent / "resources"
    for file in sorted(resources.rglob("*.py")):
        if "admin" in file.relative_to(resources).parts:
            continue
        for call, path in _CALL.findall(file.read_text()):
            method = "get" if call == "get_api_list" else call
            if path == "/vector_stores/{vector_store_id}/search":
                method = "post"  # a list that is asked for by a body
            yield method, re.sub(r"\{[^}]*\}", "{}", path)


ROUTES = sorted(set(of_the_sdk()))


def test_the_sdk_was_read() -> None:
    assert ("post", "/chat/completions") in ROUTES
    assert len(ROUTES) > 100


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_route_of_openais_is_served_or_named(method: str, path: str) -> None:
    asked = path.replace("{}", "x_1")
    told = unserved(method.upper(), f"/v1{asked}")
    assert ((method, path) in _SERVED) is (told is None), told


def test_it_is_told_over_http(gateway: str) -> None:
    with httpx.Client(base_url=gateway, trust_env=False) as http:
        for method, path, status, code in (
            ("POST", "/v1/images/generations", 404, "unknown_url"),
            ("POST", "/v1/responses/compact", 405, "unknown_method"),
            ("GET", "/v1/chat/completions", 405, "unknown_method"),
        ):
            answer = http.request(method, path)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (status, code)
            assert error["message"].startswith(f"OpenAI's {method} {path} is not served here: ")


@pytest.mark.parametrize(
    ("method", "path", "takes"),
    [
        ("PATCH", "/v1/conversations/conv_1", ["GET", "POST", "DELETE"]),
        ("PUT", "/v1/conversations/conv_1/items", ["GET", "POST"]),
        ("PATCH", "/v1/vector_stores/vs_1", ["GET", "POST", "DELETE"]),
        ("DELETE", "/v1/completions", ["POST"]),
    ],
)
def test_a_method_that_is_not_taken_is_told_all_that_are(
    gateway: str, method: str, path: str, takes: list[str]
) -> None:
    answer = httpx.request(method, f"{gateway}{path}", trust_env=False)
    assert answer.status_code == 405
    words = f"{method} is not served here; it takes {' or '.join(takes)}"
    assert answer.json()["error"]["message"] == words
    allowed = answer.headers["allow"].split(", ")
    assert [each for each in allowed if each != "HEAD"] == takes
    assert ("HEAD" in allowed) is ("GET" in allowed)
