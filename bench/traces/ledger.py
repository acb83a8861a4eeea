"""The ledger's rows as a trace: arrivals, lengths and templates of one's own traffic.

The ledger keeps no page keys, on purpose (see `cache.page_keys`). Where the operator has switched
prompts' texts on, blocks are made of those, four bytes a token; all other rows have none.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.errors import TraceError
from bench.traces.request import TraceRequest
from cache.request_log.measure import BYTES_PER_TOKEN, PAGE_HASH_BYTES, hash_pages

BLOCK_TOKENS = 16
# `at` is when a request ended.
_ROWS = """
SELECT julianday(at) * 86400 - coalesce(e2e_s, 0) AS began_s, prompt_tokens, completion_tokens,
       tenant, template, prompt_text
FROM ledger WHERE prompt_tokens IS NOT NULL ORDER BY began_s, request_id
"""


def ledger_requests(path: Path) -> Iterator[TraceRequest]:
    """The rows of a SQLite database's ledger whose prompt's length is known.

    Tenants share nothing: each has blocks of its own.

    Raises:
        TraceError: the file is no database with a ledger.
    """
    numbers: dict[bytes, int] = {}
    began_s: float | None = None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            for at_s, tokens, output, tenant, template, text in database.execute(_ROWS):
                began_s = at_s if began_s is None else began_s
                yield TraceRequest(
                    at_s=at_s - began_s,
                    blocks=_blocks(numbers, tenant, text),
                    input_tokens=max(1, tokens),
                    output_tokens=output or 0,
                    template=template,
                )
    except sqlite3.Error as error:
        raise TraceError(path, None, str(error)) from error


def _blocks(numbers: dict[bytes, int], tenant: str, text: str | None) -> list[int]:
    if text is None:
        return []
    pages = hash_pages(tenant.encode(), text.encode("utf-8", "surrogatepass"), _BLOCK_BYTES)
    return [
        numbers.setdefault(pages[at : at + PAGE_HASH_BYTES], len(numbers))
        for at in range(0, len(pages), PAGE_HASH_BYTES)
    ]


_BLOCK_BYTES = BLOCK_TOKENS * BYTES_PER_TOKEN
