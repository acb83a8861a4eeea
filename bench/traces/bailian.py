"""Alibaba's Bailian traces: JSON lines with chained ids of 16-token blocks, and who follows whom.

Source: alibaba-edu/qwen-bailian-usagetraces-anon (Apache-2.0). A turn names the one before it
(`parent_chat_id`, -1 for the first); a conversation is called after its first turn.
"""

from collections.abc import Iterator
from pathlib import Path

from bench.traces.request import TraceRequest
from bench.traces.rows import HashedRow, InOrder, json_rows

BLOCK_TOKENS = 16


class _Row(HashedRow):
    chat_id: int | str
    parent_chat_id: int | str = -1
    type: str | None = None


def bailian_requests(path: Path) -> Iterator[TraceRequest]:
    """The requests of a trace file, as they stand; what kind they are of counts as their template.

    One number a turn is kept, to know its conversation.

    Raises:
        TraceError: the file can't be read, a line isn't such a row, or times go back.
    """
    order = InOrder(path)
    firsts: dict[int | str, int | str] = {}
    for number, row in json_rows(path, _Row):
        first = firsts.get(row.parent_chat_id, row.chat_id)
        firsts[row.chat_id] = first
        yield TraceRequest(
            at_s=order.check(number, row.timestamp),
            blocks=row.hash_ids,
            input_tokens=max(1, row.input_length),
            output_tokens=row.output_length,
            session=str(first),
            template=row.type,
        )
