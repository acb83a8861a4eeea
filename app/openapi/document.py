"""The document itself: the routes' paths and parameters, with the table's bodies and answers."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.openapi.answers import ANSWERS, Schema, ref
from app.openapi.bodies import body_schemas
from app.openapi.operations import JSON, OPERATIONS, Operation

# What any operation may give; `default` are all others, with the same body.
_ERRORS = {
    "400": "The request is at fault; `param` names the field.",
    "401": "No key, or one that is not valid.",
    "403": "The key may not do this.",
    "404": "Something that the request names is not there.",
    "429": "A limit is reached; `Retry-After` says when to come again.",
    "503": "Nobody can answer now.",
    "default": "Any other error.",
}
_KEY: Schema = {"type": "http", "scheme": "bearer", "description": "an API key, `fw-…`"}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The document of all routes of the app; made anew at each call."""
    made: dict[str, Any] = get_openapi(
        title=app.title, version=app.version, routes=app.routes, description=app.description
    )
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            known = OPERATIONS.get((method, path))
            operation["responses"] = _responses(known)
            if known is not None and known.body is not None:
                content = {known.body_type: {"schema": known.body}}
                operation["requestBody"] = {"required": True, "content": content}
    given = made.get("components", {}).get("schemas", {})
    # FastAPI's own error is never sent.
    own = {name: value for name, value in given.items() if "ValidationError" not in name}
    schemas = dict(sorted((own | body_schemas() | ANSWERS).items()))
    made["components"] = {"schemas": schemas, "securitySchemes": {"key": _KEY}}
    # On loopback a deployment without keys takes everybody.
    made["security"] = [{"key": []}, {}]
    return made


def _responses(operation: Operation | None) -> dict[str, Any]:
    """Where the table says nothing, only errors are promised."""
    responses: dict[str, Any] = {
        status: _response(text, {JSON: ref("Error")}) for status, text in _ERRORS.items()
    }
    if operation is None:
        return {"2XX": {"description": "Done."}} | responses
    responses[str(operation.status)] = _response("Done.", operation.answers)
    for status, schema in (operation.further or {}).items():
        responses[str(status)] = _response("Not now.", {JSON: schema})
    return dict(sorted(responses.items()))


def _response(description: str, answers: Mapping[str, Schema]) -> dict[str, Any]:
    content = {media_type: {"schema": schema} for media_type, schema in answers.items()}
    return {"description": description, "content": content}
