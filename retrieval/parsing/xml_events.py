"""XML as a stream of events through expat, for packages that strangers made.

Nothing is kept but what the caller keeps. Document type definitions are refused: no office format
has them, and all entity tricks need one.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol
from xml.parsers import expat

from retrieval.errors import UnreadableDocumentError

_SEPARATOR = " "


class Handler(Protocol):
    """What wants to know of elements. Names are `namespace local-name`."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None: ...
    def end(self, tag: str) -> None: ...
    def text(self, text: str) -> None: ...


def read_xml(name: str, pieces: Iterable[bytes], handler: Handler) -> None:
    """Feeds a document to a handler.

    Raises:
        UnreadableDocumentError: not well-formed, or with a document type definition.
    """
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    parser.buffer_text = True
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.text

    def refuse(*_: object) -> None:
        raise UnreadableDocumentError(
            name, "its XML defines entities, which no Word document does; export it again."
        )

    parser.StartDoctypeDeclHandler = refuse
    try:
        for piece in pieces:
            parser.Parse(piece, False)
        parser.Parse(b"", True)
    except (expat.ExpatError, LookupError, ValueError) as exc:
        why = f"its XML is damaged ({exc}); export it again and upload that."
        raise UnreadableDocumentError(name, why) from exc


def local_name(tag: str) -> str:
    """The name without its namespace."""
    return tag.rpartition(_SEPARATOR)[2]
