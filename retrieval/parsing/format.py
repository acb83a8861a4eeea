"""Which format a file has: by its ending, and by its first bytes where they say it better."""

from enum import StrEnum
from pathlib import PurePosixPath

from retrieval.errors import UnreadableDocumentError


class Format(StrEnum):
    """The formats that can be read; the value is the media type."""

    TEXT = "text/plain"
    MARKDOWN = "text/markdown"
    HTML = "text/html"
    PDF = "application/pdf"


_ENDINGS = {
    "": Format.TEXT,
    ".txt": Format.TEXT,
    ".text": Format.TEXT,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".xhtml": Format.HTML,
    ".pdf": Format.PDF,
}

# Readers look for the header in the first 1,024 bytes, since some producers write junk before it.
# Source: ISO 32000-1 annex H, implementation note 13.
_PDF_HEADER = b"%PDF-"
_PDF_HEADER_WINDOW_BYTES = 1024


def detect_format(name: str, data: bytes) -> Format:
    """The format of a file.

    Raises:
        UnreadableDocumentError: empty, an unknown ending, or named .pdf without being one.
    """
    if not data:
        raise UnreadableDocumentError(name, "it is empty; upload a file with text in it.")
    if data.startswith(_PDF_HEADER):
        return Format.PDF
    ending = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    format_ = _ENDINGS.get(ending)
    if format_ is None:
        known = ", ".join(sorted(e for e in _ENDINGS if e))
        raise UnreadableDocumentError(
            name, f"files ending in {ending!r} are not supported; convert it to one of {known}."
        )
    if format_ is Format.PDF and _PDF_HEADER not in data[:_PDF_HEADER_WINDOW_BYTES]:
        raise UnreadableDocumentError(
            name, "it is named .pdf but has no PDF header; give it its real ending or export it."
        )
    return format_
