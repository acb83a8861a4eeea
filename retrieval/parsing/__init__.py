"""Bytes and a file name in, text with structure out.

One parser for each format: plain text, CSV and JSON by the standard library, Markdown by
markdown-it-py, HTML by selectolax, PDF by PDFium, DOCX by expat, source code by tree-sitter. The
same bytes give the same text on any machine. What can't be read is refused with one sentence;
nothing is guessed. `parse` runs here; `DocumentParser` runs it in a process of its own, with
limits, which is what a server wants for files that strangers made.
"""

from retrieval.documents import ParsedDocument
from retrieval.parsing.format import Format, detect_format
from retrieval.parsing.languages import Language
from retrieval.parsing.limits import MAX_TEXT_CHARS, ParsingLimits
from retrieval.parsing.process import DocumentParser
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
    from retrieval.parsing.formats import parsed

    return parsed(name, data)
