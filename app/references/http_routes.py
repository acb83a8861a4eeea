"""`docs/http-reference.md`: every route with what it takes and gives, from the OpenAPI document."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.main import create_app
from app.openapi import openapi_document
from app.problems import PROBLEMS
from app.settings import Settings

_HEAD = """\
# HTTP: all routes

Made by `python -m app.references`; don't edit. `GET /openapi.json` has the same with every schema;
[http.md](http.md) has examples. Errors have OpenAI's body, whatever the route.

"""
_FAMILIES = (
    ("OpenAI's routes", "/v1/"),
    ("Foreword's own", "/foreword/"),
    ("Health, metrics and the rest", "/"),
)


def http_page() -> str:
    """The whole page."""
    # Nothing of the home folder is read before the app starts.
    app = create_app(Settings(home=Path("/nonexistent"), cache=Path("/nonexistent")))
    paths: dict[str, dict[str, Any]] = openapi_document(app)["paths"]
    left = dict(sorted(paths.items()))
    parts = []
    for title, prefix in _FAMILIES:
        here = {path: left.pop(path) for path in list(left) if path.startswith(prefix)}
        rows = [row for path, methods in here.items() for row in _rows(path, methods)]
        table = "| route | what | takes | gives |\n|---|---|---|---|\n" + "\n".join(rows)
        parts.append(f"## {title}\n\n{table}\n")
    return _HEAD + "\n".join([*parts, _errors()])


def _errors() -> str:
    """The table of codes, each with what its first error says of itself."""
    seen: dict[str, str] = {}
    for kind, problem in PROBLEMS:
        about = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        seen.setdefault(problem.code, f"| `{problem.code}` | {problem.status} | {about} |")
    rows = "\n".join(seen[code] for code in sorted(seen))
    return f"## Error codes\n\n| code | status | what |\n|---|---|---|\n{rows}\n"


def _rows(path: str, methods: dict[str, Any]) -> Iterator[str]:
    for method, operation in methods.items():
        what = (operation.get("description") or operation.get("summary") or "").split("\n\n")[0]
        takes = [*_query(operation), *_body(operation)]
        cells = (f"`{method.upper()} {path}`", what, ", ".join(takes), ", ".join(_gives(operation)))
        yield (
            "| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|") for cell in cells) + " |"
        )


def _query(operation: dict[str, Any]) -> Iterator[str]:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "query":
            yield f"`{parameter['name']}`"


def _body(operation: dict[str, Any]) -> Iterator[str]:
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield _schema(content["schema"]) or f"`{kind}`"


def _gives(operation: dict[str, Any]) -> Iterator[str]:
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            kinds = response.get("content", {})
            names = [_schema(content["schema"]) or kind for kind, content in kinds.items()]
            yield f"{status}: {', '.join(names)}" if names else status


def _schema(schema: dict[str, Any]) -> str:
    name: str = schema.get("$ref", "").rpartition("/")[2]
    return f"`{name}`" if name else ""
