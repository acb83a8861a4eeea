"""Bytes and a file name in, text with structure out.

One parser for each format: plain text by itself, Markdown by markdown-it-py, HTML by selectolax,
PDF by PDFium. The same bytes give the same text on any machine. What can't be read is refused with
one sentence; nothing is guessed.
"""

from retrieval.documents import ParsedDocument, content_id
from retrieval.errors import UnreadableDocumentError
from retrieval.parsing.format import Format, detect_format
from retrieval.parsing.html import html_layout
from retrieval.parsing.layout import Layout
from retrieval.parsing.markdown import markdown_layout
from retrieval.parsing.pdf import pdf_layout
from retrieval.parsing.plain import decode_text, plain_layout

__all__ = ["Format", "detect_format", "parse"]


def parse(name: str, data: bytes) -> ParsedDocument:
    """The text and structure of a file.

    Args:
        name: the file's name; its ending says the format, PDF is known by its content too.
        data: the whole file.

    Raises:
        UnreadableDocumentError: empty, encrypted, binary, broken or of an unknown format.
    """
    format_ = detect_format(name, data)
    layout = _layout(format_, name, data)
    if not layout.text.strip():
        raise UnreadableDocumentError(name, "it holds no text; upload a file that does.")
    return ParsedDocument(
        id=content_id("doc", (format_.value, data)),
        name=name,
        media_type=format_.value,
        text=layout.text,
        blocks=layout.blocks,
    )


def _layout(format_: Format, name: str, data: bytes) -> Layout:
    match format_:
        case Format.PDF:
            return pdf_layout(name, data)
        case Format.HTML:
            return html_layout(name, data)
        case Format.MARKDOWN:
            return markdown_layout(decode_text(name, data))
        case Format.TEXT:
            return plain_layout(decode_text(name, data))
