"""The parts of a ZIP package (DOCX), unpacked piece by piece within a bound.

The sizes that an archive declares are not believed: what counts is what comes out.
"""

import io
import zipfile
import zlib
from collections.abc import Iterator

from retrieval.errors import ParsingLimitError, UnreadableDocumentError

# A 1,000-page report unpacks to some 30 MB of XML.
MAX_UNPACKED_BYTES = 256 << 20
_PIECE_BYTES = 1 << 16
_ENCRYPTED = 0x1
# What the standard library raises for archives that lie: see `zipfile.ZipFile.open`.
_BAD_ARCHIVE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
    OverflowError,
)
_DAMAGED = "it is a damaged ZIP archive; export it again and upload that."
_OTHER_PACKAGES = (
    ("xl/", "an Excel workbook; save each sheet as CSV and upload those."),
    ("ppt/", "a PowerPoint file; export it as PDF and upload that."),
    ("META-INF/container.xml", "an e-book; convert it to PDF or HTML and upload that."),
    ("content.xml", "an OpenDocument file; save it as DOCX or PDF and upload that."),
    ("META-INF/MANIFEST.MF", "a Java archive; upload its source files."),
)


def is_zip(data: bytes) -> bool:
    """Whether it starts like a ZIP archive (also an empty or a split one)."""
    return data.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"))


def zip_format_why(data: bytes) -> str | None:
    """Why a ZIP archive can't be read; None for a Word document."""
    try:
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    except _BAD_ARCHIVE:
        return _DAMAGED
    if any(name.startswith("word/") for name in names):
        return None
    for start, what in _OTHER_PACKAGES:
        if any(name.startswith(start) for name in names):
            return f"it is {what}"
    return "it is a ZIP archive; unpack it and upload the files in it."


class Package:
    """The parts of one archive; all that is unpacked counts against one bound."""

    def __init__(self, name: str, data: bytes) -> None:
        """Raises:
        UnreadableDocumentError: not a ZIP archive.
        """
        self._name = name
        self._unpacked_bytes = 0
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except _BAD_ARCHIVE as exc:
            raise UnreadableDocumentError(name, _DAMAGED) from exc

    def __contains__(self, part: str) -> bool:
        return part in self._archive.NameToInfo

    def pieces(self, part: str) -> Iterator[bytes]:
        """A part's bytes, 64 KiB at a time.

        Raises:
            UnreadableDocumentError: damaged, or encrypted.
            ParsingLimitError: more comes out than is allowed.
        """
        try:
            info = self._archive.getinfo(part)
        except KeyError as exc:
            why = f"its part {part!r} is missing; export it again and upload that."
            raise UnreadableDocumentError(self._name, why) from exc
        if info.flag_bits & _ENCRYPTED:
            why = "it is protected by a password; save a copy without one and upload that."
            raise UnreadableDocumentError(self._name, why)
        try:
            with self._archive.open(info) as stream:
                while piece := stream.read(_PIECE_BYTES):
                    self._count(len(piece))
                    yield piece
        except _BAD_ARCHIVE as exc:
            raise UnreadableDocumentError(self._name, _DAMAGED) from exc

    def _count(self, size_bytes: int) -> None:
        self._unpacked_bytes += size_bytes
        if self._unpacked_bytes > MAX_UNPACKED_BYTES:
            raise ParsingLimitError(self._name, "unpacked data", MAX_UNPACKED_BYTES, "bytes")
