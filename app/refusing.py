"""An error as the answer to a request, and in its line of the log."""

from collections.abc import Mapping

import structlog
from starlette.responses import JSONResponse

from app.observation import saw_error
from app.problems import UNEXPECTED, error_body, error_headers, problem_of, sentence_of

_log = structlog.get_logger()


def error_answer(error: Exception, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """OpenAI's error, with all headers that belong to it."""
    noted(error)
    told = dict(headers or {}) | error_headers(error)
    return JSONResponse(error_body(error), problem_of(error).status, told)


def noted(error: Exception) -> None:
    """A client is told of an error: its code goes into the request's line, and what the client
    isn't told into one of its own."""
    problem = problem_of(error)
    saw_error(problem.code)
    if problem is not UNEXPECTED and (whole := str(error)) != sentence_of(error):
        _log.warning("request_failed", code=problem.code, problem=whole)
