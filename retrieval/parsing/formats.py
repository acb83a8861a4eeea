"""All formats' parsers, and which one reads a file.

They take 10 MB: a process that has its files read by another one needn't have them.
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
from retrieval.parsing.limits import check_length
from retrieval.parsing.markdown import markdown_layout
from retrieval.parsing.pdf import pdf_layout
from retrieval.parsing.plain import decode_text, plain_layout
from retrieval.parsing.tables import table_layout


def parsed(name: str, data: bytes) -> ParsedDocument:
    """As `retrieval.parsing.parse`."""
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
