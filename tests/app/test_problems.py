"""Every error has its place in the one table, and its sentence reaches the client."""

import inspect
from pathlib import Path
from types import ModuleType

import pytest

import app.agents.mcp.errors
import app.errors
import cache.errors
import prompts.errors
import retrieval.errors
from app.problems import UNEXPECTED, error_body, problem_of


def _concrete(module: ModuleType) -> list[type[Exception]]:
    classes = [
        c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, Exception)
    ]
    parents = {base for c in classes for base in c.__mro__[1:]}
    return [c for c in classes if c not in parents and c.__module__ == module.__name__]


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for module in (
            app.agents.mcp.errors,
            app.errors,
            cache.errors,
            prompts.errors,
            retrieval.errors,
        )
        for kind in _concrete(module)
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_concrete_error_is_in_the_table(kind: type[Exception]) -> None:
    if kind is app.errors.EngineResponseError:
        error: Exception = app.errors.EngineResponseError("url", 500, "m")
    else:
        error = kind.__new__(kind)
    assert problem_of(error) is not UNEXPECTED


@pytest.mark.parametrize(("status", "ours"), [(400, 400), (404, 400), (429, 429), (500, 502)])
def test_an_engines_refusal_keeps_its_kind(status: int, ours: int) -> None:
    assert problem_of(app.errors.EngineResponseError("url", status, "no")).status == ours


def test_an_unexpected_errors_text_stays_in_the_log() -> None:
    body = error_body(RuntimeError("secret"))
    assert "secret" not in str(body)
    assert body["error"]["code"] == "internal_error"


def test_a_known_errors_sentence_is_the_message() -> None:
    body = error_body(app.errors.ContextLengthError(9000, 10, 8192))
    assert "9000 tokens" in str(body["error"]["message"])
    assert body["error"]["param"] == "messages"
    assert "in it" in str(app.errors.HomeError(Path("home"), "no space in it"))
