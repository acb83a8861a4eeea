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
from cache.request_log.reader import open_log
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
        RequestLogError: the log can't be opened, read or unpacked.
    """
    with open_log(options.path) as lines:
        return diagnose(lines, options)
