"""Requests as places in the log, for findings."""

from cache.request_log.options import LogOptions
from cache.request_log.table import RequestTable
from prompts.lint.findings import Place


def log_place(table: RequestTable, options: LogOptions, request: int) -> Place:
    """A request's line in the log."""
    return Place(
        path=options.path,
        line=table.lines[request],
        column=1,
        start=table.starts[request],
        stop=table.stops[request],
    )
