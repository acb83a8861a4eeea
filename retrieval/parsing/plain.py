"""Plain text: decoding, and paragraphs by empty lines."""

import codecs
import re

from retrieval.documents import Block, BlockKind
from retrieval.errors import UnreadableDocumentError
from retrieval.parsing.layout import Layout, clean_text

_PARAGRAPH = re.compile(r"\S.*(?:\n[^\S\n]*\S.*)*")
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def decode_text(name: str, data: bytes) -> str:
    """The file's text, cleaned; UTF-8, or UTF-16 when a byte order mark says so.

    Raises:
        UnreadableDocumentError: not text in either encoding. Guessing one would put other
            characters into the prompt than the author wrote.
    """
    encoding, body = "utf-8", data
    for mark, marked in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            encoding, body = marked, data[len(mark) :]
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as exc:
        raise UnreadableDocumentError(
            name,
            f"it isn't {encoding.upper()} text (byte {exc.start:,} is {body[exc.start]:#04x}); "
            "save it as UTF-8 and upload it again.",
        ) from exc
    if "\0" in text:
        raise UnreadableDocumentError(
            name, "it holds NUL bytes, so it is not text; export it as text, HTML or PDF."
        )
    return clean_text(text)


def plain_layout(text: str) -> Layout:
    """Cleaned text with its paragraphs: the runs of lines between empty lines."""
    blocks = (
        Block(kind=BlockKind.BODY, start=found.start(), end=found.start() + len(found[0].rstrip()))
        for found in _PARAGRAPH.finditer(text)
    )
    return Layout(text=text, blocks=tuple(blocks))
