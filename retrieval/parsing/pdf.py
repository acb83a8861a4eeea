"""PDF text, page by page, through PDFium (pypdfium2).

PDFium is chosen over pure Python because whatever is wrong with a file arrives as one error type
and it is fast; the price is that only one thread may be inside it at a time.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from threading import Lock

import pypdfium2
import pypdfium2.raw as pdfium_c

from retrieval.errors import UnreadableDocumentError
from retrieval.parsing.layout import Layout, Piece, clean_text, join_pieces

# PDFium is not thread-safe, for the whole process. Source: pypdfium2 README, "Thread safety".
_ONE_THREAD_IN_PDFIUM = Lock()

# PDFium marks a word that was hyphenated at a line's end with U+FFFE.
_HYPHENATED = re.compile("\ufffe\r?\n?")
_EMPTY_LINES = re.compile(r"\n\s*\n")


def pdf_layout(name: str, data: bytes) -> Layout:
    """The text of a PDF, lines as they are set; a block is a paragraph on one page.

    Raises:
        UnreadableDocumentError: password-protected, damaged, or without a text layer.
    """
    with _ONE_THREAD_IN_PDFIUM:
        pages = _page_texts(name, data)
    pieces = [
        Piece(text=paragraph.strip(), page=number)
        for number, text in enumerate(pages, start=1)
        for paragraph in _EMPTY_LINES.split(clean_text(_HYPHENATED.sub("", text)))
    ]
    layout = join_pieces(pieces)
    if not layout.blocks:
        raise UnreadableDocumentError(
            name,
            f"its {len(pages)} pages hold no text, only pictures perhaps; "
            "run text recognition (OCR) over it and upload the result.",
        )
    return layout


def _page_texts(name: str, data: bytes) -> list[str]:
    try:
        with closing(pypdfium2.PdfDocument(data)) as document:
            return list(_texts(document))
    except pypdfium2.PdfiumError as exc:
        if exc.err_code == pdfium_c.FPDF_ERR_PASSWORD:
            why = "it is protected by a password; save a copy without one and upload that."
        else:
            why = "it is damaged or not a complete PDF; export it again and upload that."
        raise UnreadableDocumentError(name, why) from exc


def _texts(document: pypdfium2.PdfDocument) -> Iterator[str]:
    for index in range(len(document)):
        with closing(document[index]) as page, closing(page.get_textpage()) as text:
            yield text.get_text_range()
