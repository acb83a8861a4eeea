"""A log of OpenAI requests as a trace: what each shares with those before it, by their text.

Without a tokenizer four bytes count as one token, as in `foreword lint --log`. The log's distinct
messages are kept in memory, each once; ids are given in the order in which blocks first appear.
"""

from collections.abc import Iterator
from pathlib import Path

from bench.errors import TraceError
from bench.traces.request import TraceRequest
from cache.errors import RequestLogError
from cache.request_log.bodies import LogLineError, parse_line
from cache.request_log.measure import BYTES_PER_TOKEN, PAGE_HASH_BYTES, ByteMeasure, hash_pages
from cache.request_log.reader import open_log
from cache.request_log.table import LogPrompt, RequestTable

BLOCK_TOKENS = 16
# A stretch of text that is moved elsewhere is only worth anything from about so much on.
PIECE_TOKENS = 64


def log_requests(path: Path) -> Iterator[TraceRequest]:
    """The log's requests in its order; what a line says of time isn't read.

    Raises:
        TraceError: the file can't be read, or a line holds no request.
    """
    table = RequestTable()
    measure = ByteMeasure(table.store, page_size=BLOCK_TOKENS)
    numbers: dict[bytes, int] = {}
    pieces: dict[int, tuple[bytes, ...]] = {}
    try:
        with open_log(path) as lines:
            for number, line in enumerate(lines, start=1):
                if line.isspace():
                    continue
                try:
                    logged = parse_line(line)
                except LogLineError as error:
                    raise TraceError(path, number, str(error)) from error
                table.add(logged, line=number, start=0, stop=len(line))
                prompt = table.prompt(len(table) - 1)
                chain = measure.chain(prompt)
                said = logged.output.content if logged.output is not None else ""
                yield TraceRequest(
                    at_s=None,
                    blocks=_numbered(numbers, chain.pages),
                    input_tokens=max(1, chain.tokens),
                    output_tokens=-(-len(said.encode(errors="surrogatepass")) // BYTES_PER_TOKEN),
                    session=logged.user or None,
                    pieces=[
                        numbers.setdefault(piece, len(numbers))
                        for piece in _pieces(table, prompt, pieces)
                    ],
                )
    except RequestLogError as error:
        raise TraceError(path, None, error.reason) from error


def _numbered(numbers: dict[bytes, int], pages: bytes) -> list[int]:
    width = PAGE_HASH_BYTES
    return [
        numbers.setdefault(pages[at : at + width], len(numbers))
        for at in range(0, len(pages), width)
    ]


def _pieces(
    table: RequestTable, prompt: LogPrompt, known: dict[int, tuple[bytes, ...]]
) -> Iterator[bytes]:
    """Hashes of the whole pieces of each message, counted from the message's own beginning."""
    for message in prompt.messages:
        if message not in known:
            text = table.store.text(message).encode(errors="surrogatepass")
            size = PIECE_TOKENS * BYTES_PER_TOKEN
            known[message] = tuple(
                b"piece" + hash_pages(b"", text[at : at + size], size)
                for at in range(0, len(text) - size + 1, size)
            )
        yield from known[message]
