"""Bytes and a file name in, text with structure out.

One parser for each format: plain text, CSV and JSON by the standard library, Markdown by
markdown-it-py, HTML by selectolax, PDF by PDFium, DOCX by expat, source code by tree-sitter. The
same bytes give the same text on any machine. What can't be read is refused with one sentence;
nothing is guessed. `parse` runs here; `DocumentParser` runs it in a process of its own, with
limits, which is what a server wants for files that strangers made.
"""

from retrieval.documents import ParsedDocument, content_id
from retrieval.errors import UnreadableDocumentError
from retrieval.parsing.code import code_layout
from retrieval.parsing.docx import docx_layout
from retrieval.parsing.format import Format, detect_format
from retrieval.parsing.html import html_layout
from retrieval.parsing.json_records import json_layout
from retrieval.parsing.languages import Language
from retrieval.parsing.layout import Layout
from retrieval.parsing.limits import MAX_TEXT_CHARS, ParsingLimits, check_length
from retrieval.parsing.markdown import markdown_layout
from retrieval.parsing.pdf import pdf_layout
from retrieval.parsing.plain import decode_text, plain_layout
from retrieval.parsing.process import DocumentParser
from retrieval.parsing.tables import table_layout
from retrieval.parsing.wire import Cutting

__all__ = [
    "MAX_TEXT_CHARS",
    "Cutting",
    "DocumentParser",
    "Format",
    "Language",
    "ParsingLimits",
    "detect_format",
    "parse",
]


def parse(name: str, data: bytes) -> ParsedDocument:
    """The text and structure of a file.

    Args:
        name: the file's name; its ending says the format where the content doesn't.
        data: the whole file.

    Raises:
        UnreadableDocumentError: empty, encrypted, binary, broken or of a kind without text.
        ParsingLimitError: more text than a document may have.
    """
    format_ = detect_format(name, data)
    layout = _layout(format_, name, data)
    check_length(name, len(layout.text))
    if not layout.text.strip():
        raise UnreadableDocumentError(name, "it holds no text; upload a file that does.")
    media_type = format_.media_type if isinstance(format_, Language) else format_.value
    return ParsedDocument(
        id=content_id("doc", (media_type, data)),
        name=name,
        media_type=media_type,
        text=layout.text,
        blocks=layout.blocks,
    )


def _layout(format_: Format | Language, name: str, data: bytes) -> Layout:
    match format_:
        case Language():
            return code_layout(decode_text(name, data), format_)
        case Format.PDF:
            return pdf_layout(name, data)
        case Format.DOCX:
            return docx_layout(name, data)
        case Format.HTML:
            return html_layout(name, data)
        case Format.MARKDOWN:
            return markdown_layout(decode_text(name, data))
        case Format.CSV:
            return table_layout(name, decode_text(name, data), delimiter=None)
        case Format.TSV:
            return table_layout(name, decode_text(name, data), delimiter="\t")
        case Format.JSON:
            return json_layout(name, data, lines=False)
        case Format.JSON_LINES:
            return json_layout(name, data, lines=True)
        case Format.TEXT:
            return plain_layout(decode_text(name, data))
