"""Small real files of every format, made here, and what of a document is compared."""

import io
import zipfile
from collections.abc import Mapping

import docx
import docx.document
import pypdf

from retrieval.documents import BlockKind, ParsedDocument


def shown(document: ParsedDocument) -> list[tuple[str, object, str]]:
    """Blocks as (kind, level or path, text)."""
    return [
        (
            block.kind.value,
            block.level if block.kind is BlockKind.HEADING else block.path,
            document.text[block.start : block.end],
        )
        for block in document.blocks
    ]


def saved(document: docx.document.Document) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def report_docx() -> bytes:
    """A Word document with a title, headings, lists, a table and breaks, by python-docx."""
    document = docx.Document()
    document.add_heading("The Ferry", 0)
    document.add_heading("Fares", 1)
    document.add_paragraph("A ticket costs ").add_run("9 euros").bold = True
    for text, style in (("dogs", "List Bullet"), ("cats", "List Bullet"), ("pay", "List Number")):
        document.add_paragraph(text, style=style)
    table = document.add_table(2, 2)
    for row, texts in enumerate((("From", "Price"), ("Port Ellery", "9\neuros"))):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    document.add_heading("Children", 2)
    document.add_paragraph("free\tunder\n6")
    return saved(document)


def repacked(package: bytes, parts: Mapping[str, bytes]) -> bytes:
    """A ZIP package with some of its parts replaced or added."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(package)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in dict.fromkeys([*old.namelist(), *parts]):
            new.writestr(name, parts[name] if name in parts else old.read(name))
    return buffer.getvalue()


def word_xml(body: str) -> bytes:
    """A main part with this body."""
    namespaces = (
        'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    )
    return f"<w:document {namespaces}><w:body>{body}</w:body></w:document>".encode()


def docx_of(body: str, **parts: bytes) -> bytes:
    """A Word document with this body, between python-docx's own other parts."""
    named = {f"word/{name}.xml": data for name, data in parts.items()}
    return repacked(saved(docx.Document()), {"word/document.xml": word_xml(body), **named})


def encrypted_pdf(pdf: bytes, password: str, algorithm: str = "AES-256") -> bytes:
    """The PDF with a password for opening it."""
    writer = pypdf.PdfWriter(clone_from=pypdf.PdfReader(io.BytesIO(pdf)))
    writer.encrypt(password, algorithm=algorithm)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()
