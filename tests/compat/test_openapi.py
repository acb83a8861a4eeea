"""The OpenAPI document: it names what there is, and what it says is so."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from app.main import create_app
from app.openai_fields import IGNORED_FIELDS
from app.openapi import OPERATIONS
from app.schemas import FORWARDED_FIELDS
from tests.gateways import gateway_settings


@pytest.fixture
def http(gateway: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway, trust_env=False) as made:
        yield made


@pytest.fixture
def document(http: httpx.Client) -> dict[str, Any]:
    made: dict[str, Any] = http.get("/openapi.json").raise_for_status().json()
    return made


def test_every_route_is_in_the_table_and_every_row_is_a_route(tmp_path: Path) -> None:
    document = create_app(gateway_settings(tmp_path, "http://127.0.0.1:9")).openapi()
    routes = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert routes == set(OPERATIONS)


def test_the_document_is_valid_and_whole(document: dict[str, Any]) -> None:
    """Each schema is one, and every reference leads somewhere."""
    for name, schema in document["components"]["schemas"].items():
        jsonschema_rs.meta.validate(schema)
        for reference in _references(schema):
            assert reference.rpartition("/")[2] in document["components"]["schemas"], name
    for methods in document["paths"].values():
        for operation in methods.values():
            assert {"400", "401", "403", "404", "429", "503", "default"} <= set(
                operation["responses"]
            )
            assert operation["summary"]


def test_chat_completions_fields_are_those_that_are_taken(document: dict[str, Any]) -> None:
    schema = document["components"]["schemas"]["ChatCompletionRequest"]
    own = {"model", "messages", "stream", "stream_options", "max_tokens", "foreword"}
    own.add("max_completion_tokens")
    defaults = {"function_call", "functions", "modalities", "verbosity"}
    assert set(schema["properties"]) == own | FORWARDED_FIELDS | IGNORED_FIELDS | defaults
    assert schema["additionalProperties"] == {"type": "null"}


def test_bounds_of_the_wire_are_in_it(document: dict[str, Any]) -> None:
    chat = document["components"]["schemas"]["ChatCompletionRequest"]["properties"]
    bounds = {name: schema["anyOf"][0] for name, schema in chat.items() if "anyOf" in schema}
    assert (bounds["n"]["minimum"], bounds["n"]["maximum"]) == (1, 128)
    assert bounds["top_logprobs"]["maximum"] == 20
    assert bounds["temperature"]["maximum"] == 100
    assert bounds["stop_token_ids"]["maxItems"] == 256


def test_whatever_may_be_left_out_may_be_null(document: dict[str, Any]) -> None:
    for name in ("ChatCompletionRequest", "CompletionRequest", "EmbeddingsRequest"):
        schema = document["components"]["schemas"][name]
        for field, told in schema["properties"].items():
            can_be_null = {"type": "null"} in told.get("anyOf", ())
            assert can_be_null is (field not in schema["required"]), f"{name}.{field}"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/", 404),
        ("DELETE", "/v1/chat/completions", 405),
        ("PUT", "/v1/models", 405),
        ("POST", "/livez", 405),
        ("GET", "/v1/vector_stores?limit=0", 400),
        ("GET", "/v1/files/unknown", 404),
    ],
)
def test_all_errors_have_openais_body(
    http: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"


def test_a_body_that_is_too_large_has_it_too(gateway: str) -> None:
    """Already when it is announced."""
    connection = HTTPConnection(gateway.removeprefix("http://"), timeout=60)
    connection.putrequest("POST", "/v1/files")
    connection.putheader("content-length", str(10**12))
    connection.endheaders()
    answer = connection.getresponse()
    error = json.loads(answer.read())["error"]
    connection.close()
    assert answer.status == 413
    assert error["code"] == "body_too_large"


def _references(schema: Any) -> Iterator[str]:
    match schema:
        case {"$ref": str() as reference}:
            yield reference
        case dict():
            for value in schema.values():
                yield from _references(value)
        case list():
            for value in schema:
                yield from _references(value)
