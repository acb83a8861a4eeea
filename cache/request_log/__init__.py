"""Diagnosis of request logs: what a log's prompts could share, what they do, and why not more."""

from cache.request_log.diagnosing import diagnose
from cache.request_log.diagnosis import (
    BadLine,
    CurvePoint,
    Diagnosis,
    GroupReport,
    HitRates,
    Reported,
)
from cache.request_log.options import STANDARD_INPUT, LogOptions
from cache.request_log.reader import NoRequestError, open_log
from cache.request_log.report_json import to_json
from cache.request_log.report_text import render_text

__all__ = [
    "STANDARD_INPUT",
    "BadLine",
    "CurvePoint",
    "Diagnosis",
    "GroupReport",
    "HitRates",
    "LogOptions",
    "NoRequestError",
    "Reported",
    "diagnose",
    "lint_log",
    "open_log",
    "render_text",
    "to_json",
]


def lint_log(options: LogOptions) -> Diagnosis:
    """Diagnose the log at `options.path`; `-` reads standard input.

    Raises:
        RequestLogError: the log can't be opened, read or unpacked, or holds no request.
    """
    with open_log(options.path) as lines:
        diagnosis = diagnose(lines, options)
    if not diagnosis.requests:
        bad = [f"line {bad.line:,}: {bad.reason}" for bad in diagnosis.bad_examples[:1]]
        raise NoRequestError(path=options.path, reason="".join(bad))
    return diagnosis
