"""Mooncake's published traces: JSON lines with chained ids of 512-token blocks.

Source: kvcache-ai/Mooncake, FAST25-release (Apache-2.0). SGLang's `bench_serving`, AIPerf and
Dynamo read and write the same format. Rows of one conversation may have a `session_id`; most have
none.
"""

from collections.abc import Iterator
from pathlib import Path

from bench.traces.request import TraceRequest
from bench.traces.rows import HashedRow, InOrder, json_rows

BLOCK_TOKENS = 512


class _Row(HashedRow):
    session_id: str | None = None


def mooncake_requests(path: Path) -> Iterator[TraceRequest]:
    """The requests of a trace file, as they stand.

    Raises:
        TraceError: the file can't be read, a line isn't such a row, or times go back.
    """
    order = InOrder(path)
    for number, row in json_rows(path, _Row):
        yield TraceRequest(
            at_s=order.check(number, row.timestamp / 1000),
            blocks=row.hash_ids,
            input_tokens=max(1, row.input_length),
            output_tokens=row.output_length,
            session=row.session_id,
        )
