"""Each error of the harness says what is at fault and why, in one sentence."""

from pathlib import Path

import pytest

from bench import errors
from bench.errors import FaultyError, GatewayAnswerError, TraceError

KINDS = sorted(
    (kind for kind in vars(errors).values()
     if isinstance(kind, type) and issubclass(kind, FaultyError)),
    key=lambda kind: kind.__name__,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_both_what_and_why_are_said(kind: type[FaultyError]) -> None:
    """Whatever they hold, and as attributes too."""
    error = kind(Path("/some/{where}"), "is {odd}")
    assert "/some/{where}" in str(error)
    assert "is {odd}" in str(error)
    assert (error.subject, error.problem) == (Path("/some/{where}"), "is {odd}")


def test_a_page_that_a_gateway_answered_is_cut() -> None:
    assert len(str(GatewayAnswerError("http://127.0.0.1", "x" * 9000))) < 700


def test_a_line_is_named_where_there_is_one() -> None:
    assert str(TraceError(Path("t"), 3, "is odd")) == "t, line 3: is odd"
    assert str(TraceError(Path("t"), None, "is odd")) == "t: is odd"
