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
from app.problems import UNEXPECTED, error_body, error_headers, problem_of, sentence_of


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
    uncounted = error_body(app.errors.ContextLengthError(None, 10, 8192))
    assert "more than 8192 tokens" in str(uncounted["error"]["message"])
    assert "in it" in str(app.errors.HomeError(Path("home"), "no space in it"))


URL = "http://10.0.0.7:30000"
FOLDER = Path("/srv/foreword")
# Whose own sentences name the machine's insides.
INSIDE: list[Exception] = [
    app.errors.EngineUnreachableError(URL, "Connect call failed ('10.0.0.7', 30000)"),
    app.errors.EngineTimeoutError(URL, "first byte", 60),
    app.errors.EngineProtocolError(URL, f"{URL} said nothing"),
    app.errors.EngineNotReadyError(URL),
    app.errors.EngineLeaksError(URL, f"{URL} served it"),
    app.errors.DatabaseError("postgresql://10.0.0.7/foreword", "refused"),
    app.errors.DatabaseAwayError("10.0.0.7 refused"),
    app.errors.HomeError(FOLDER, "is full"),
    app.errors.InvalidSettingError("tiers.url", f"{URL} can't be"),
    app.errors.TierServerError(URL, "refused"),
    app.agents.mcp.errors.McpUnavailableError("notes", f"no connection: {URL}"),
    app.agents.mcp.errors.McpPinError("notes", "helper", f"{FOLDER}/pins.json can't be read"),
    app.agents.mcp.errors.McpToolsChangedError("notes", "helper", ["one"]),
    prompts.errors.TemplateSyntaxError(FOLDER / "a.md", 1, 1, "wrong"),
    prompts.errors.LockFileError(FOLDER / "prompts.lock", 1, "is wrong"),
    prompts.errors.TokenizerNotFoundError(FOLDER, "tokenizer.json"),
    retrieval.errors.StorageError(f"The disk at {str(FOLDER)!r}", "no space"),
    retrieval.errors.StorageAwayError("The database", "10.0.0.7 refused"),
    retrieval.errors.IndexDamagedError(FOLDER, "it can't be read"),
    retrieval.errors.IndexNotFoundError(FOLDER),
    retrieval.errors.EmbedderUnavailableError(str(FOLDER), "it can't be loaded"),
    retrieval.errors.EmbedderBusyError(str(FOLDER), "more waits"),
    retrieval.errors.RerankerError(str(FOLDER), "it can't be loaded"),
    retrieval.errors.ParserUnavailableError(f"{FOLDER}/python can't be run"),
]


@pytest.mark.parametrize("error", INSIDE, ids=lambda error: type(error).__name__)
def test_clients_are_told_no_addresses_paths_or_commands(error: Exception) -> None:
    told = sentence_of(error)
    assert error_body(error)["error"]["message"] == told
    for inside in ("10.0.0.7", "30000", str(FOLDER), "`foreword", "FOREWORD_"):
        assert inside not in told


# The operator has to do something first, or nobody knows whether a second time is better.
IN_VAIN = {
    "engine_not_isolated", "engine_protocol", "retrieval_unavailable", "mcp_tools_changed",
    "mcp_server_refused",
}  # fmt: skip


def test_where_trying_again_makes_sense_the_answer_says_when() -> None:
    told = 0
    for error in INSIDE:
        problem, headers = problem_of(error), error_headers(error)
        if problem.status in (502, 503, 504) and problem.code not in IN_VAIN:
            assert int(headers["retry-after"]) > 0, problem.code
            told += 1
    assert told > 5
    assert error_headers(app.errors.DeadlineError(1, 2, retry_after_s=7))["retry-after"] == "7"
    assert error_headers(app.errors.EngineResponseError(URL, 500, "no"))["retry-after"]
    assert "retry-after" not in error_headers(app.errors.EngineResponseError(URL, 400, "no"))
