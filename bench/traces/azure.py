"""Azure's published traces of 2023 and 2024: when requests came and how long they were, no more.

Source: Azure/AzurePublicDataset (CC-BY-4.0). Nothing is known of what they shared, so they have no
blocks: good for arrivals and lengths.
"""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from bench.errors import TraceError
from bench.traces.request import TraceRequest
from bench.traces.rows import InOrder, opened

BLOCK_TOKENS = None
COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def azure_requests(path: Path) -> Iterator[TraceRequest]:
    """The requests of a trace file, as they stand; times count from the first.

    Raises:
        TraceError: the file can't be read, a column is missing, a value is none, or times go back.
    """
    order, began_at = InOrder(path), None
    with opened(path) as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, "utf-8-sig", newline=""))
        try:
            if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
                raise TraceError(path, 1, f"has no column {', '.join(missing)}")
            for row in rows:
                at = _time(row["TIMESTAMP"])
                began_at = began_at or at
                yield TraceRequest(
                    at_s=order.check(rows.line_num, (at - began_at).total_seconds()),
                    blocks=(),
                    input_tokens=max(1, _count(row["ContextTokens"])),
                    output_tokens=_count(row["GeneratedTokens"]),
                )
        except (csv.Error, TypeError, ValueError) as error:
            raise TraceError(path, rows.line_num, str(error)) from error


def _time(text: str) -> datetime:
    """Microseconds are the finest that is kept; the files have seven digits, or a zone."""
    whole, _, fraction = text.partition(".")
    digits = fraction.split("+")[0].rstrip("Z")
    moment = datetime.fromisoformat(whole.split("+")[0]).replace(tzinfo=UTC)
    return moment.replace(microsecond=int(digits[:6].ljust(6, "0")) if digits else 0)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(f"{text} is not a number of tokens")
    return number
