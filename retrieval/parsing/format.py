"""Which format a file has: by its content where that says it, by its ending otherwise.

A wrong ending is forgiven when the content is plain to see (a PDF named .txt, a page named .md);
what can't be read is refused with what it is and what to do.
"""

import re
from enum import StrEnum
from pathlib import PurePosixPath

from retrieval.errors import UnreadableDocumentError
from retrieval.parsing.archive import is_zip, zip_format_why
from retrieval.parsing.json_records import is_json
from retrieval.parsing.languages import Language, language_of_ending, language_of_interpreter
from retrieval.parsing.plain import decode_start
from retrieval.parsing.signatures import unreadable_why


class Format(StrEnum):
    """The formats of documents and data; the value is the media type."""

    TEXT = "text/plain"
    MARKDOWN = "text/markdown"
    HTML = "text/html"
    PDF = "application/pdf"
    DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    CSV = "text/csv"
    TSV = "text/tab-separated-values"
    JSON = "application/json"
    JSON_LINES = "application/jsonl"


_ENDINGS = {
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".xhtml": Format.HTML,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".tab": Format.TSV,
    ".json": Format.JSON,
    ".geojson": Format.JSON,
    ".ipynb": Format.JSON,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".pdf": Format.PDF,
    ".docx": Format.DOCX,
    ".docm": Format.DOCX,
    ".dotx": Format.DOCX,
}
# Readers look for the header in the first 1,024 bytes, since some producers write junk before it.
# Source: ISO 32000-1 annex H, implementation note 13.
_PDF_HEADER = b"%PDF-"
_PDF_HEADER_WINDOW_BYTES = 1024
_PAGE_START = re.compile(
    r"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html)\b", re.I | re.S
)
_ANY_TAG = re.compile(r"<[a-zA-Z!/]")


def detect_format(name: str, data: bytes) -> Format | Language:
    """The format of a file, or the programming language it is written in.

    Raises:
        UnreadableDocumentError: empty, or of a kind that holds no readable text.
    """
    if not data:
        raise UnreadableDocumentError(name, "it is empty; upload a file with text in it.")
    named = _named_format(name, data)
    return _binary_format(name, data, named) or _text_format(name, data, named)


def _named_format(name: str, data: bytes) -> Format | Language:
    """What the name claims. An unknown ending claims plain text."""
    ending = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    by_name = _ENDINGS.get(ending) or language_of_ending(ending)
    if by_name is None and not ending:
        by_name = language_of_interpreter(data[:256].split(b"\n", 1)[0])
    return by_name or Format.TEXT


def _binary_format(name: str, data: bytes, named: Format | Language) -> Format | None:
    """PDF or DOCX; None for what may be text."""
    if data.startswith(_PDF_HEADER):
        return Format.PDF
    if named is Format.PDF and _PDF_HEADER in data[:_PDF_HEADER_WINDOW_BYTES]:
        return Format.PDF
    if is_zip(data):
        why = zip_format_why(data)
        if why is not None:
            raise UnreadableDocumentError(name, why)
        return Format.DOCX
    why = unreadable_why(data)
    if why is not None:
        raise UnreadableDocumentError(name, why)
    return None


def _text_format(name: str, data: bytes, named: Format | Language) -> Format | Language:
    """By content where the name is wrong: a page or JSON under another name, text named .html."""
    if isinstance(named, Language):
        return named
    start = decode_start(data)
    if _PAGE_START.match(start):
        return Format.HTML
    if named in (Format.PDF, Format.DOCX):
        what = "PDF header" if named is Format.PDF else "Word document in it"
        raise UnreadableDocumentError(
            name, f"it is named like one but has no {what}; give it its real ending or export it."
        )
    if named is Format.HTML:
        return Format.HTML if _ANY_TAG.search(start) else Format.TEXT
    if named not in (Format.JSON, Format.JSON_LINES) and is_json(data):
        return Format.JSON
    return named
