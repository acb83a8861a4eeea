"""DOCX: what a reader of the document sees, in its order, and refusals of broken packages."""

import io
import zipfile

import docx
import pytest

from retrieval.errors import ParsingLimitError, UnreadableDocumentError
from retrieval.parsing import archive, parse
from tests.retrieval.parsing.files import docx_of, repacked, report_docx, saved, shown, word_xml


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def paragraph(*runs: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{''.join(runs)}</w:p>"


def test_a_document_has_its_headings_lists_and_tables_in_order() -> None:
    assert shown(parse("a.docx", report_docx())) == [
        ("heading", 1, "The Ferry"),
        ("heading", 2, "Fares"),
        ("body", None, "A ticket costs 9 euros"),
        ("lines", None, "- dogs\n- cats\n1. pay"),
        ("lines", None, "From | Price\nPort Ellery | 9 euros"),
        ("heading", 3, "Children"),
        ("body", None, "free\tunder\n6"),
    ]


def test_every_paragraph_that_python_docx_reads_is_in_the_text() -> None:
    data = report_docx()
    text = parse("a.docx", data).text
    assert all(p.text in text for p in docx.Document(io.BytesIO(data)).paragraphs)


def test_inserted_text_is_read_and_deleted_or_hidden_text_is_not() -> None:
    body = paragraph(
        run("kept "),
        f"<w:ins>{run('inserted')}</w:ins>",
        "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>",
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>",
        '<w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t> seen</w:t></w:r>',
        "<w:r><w:instrText>PAGE</w:instrText></w:r>",
        "<w:r><w:noBreakHyphen/></w:r>",
        f"<w:hyperlink>{run('link')}</w:hyperlink>",
        f"<w:sdt><w:sdtPr><w:t>no</w:t></w:sdtPr><w:sdtContent>{run('!')}</w:sdtContent></w:sdt>",
    )
    assert parse("a.docx", docx_of(body)).text == "kept inserted seen-link!"


def test_a_text_box_is_read_once() -> None:
    box = f"<w:txbxContent>{paragraph(run('boxed'))}</w:txbxContent>"
    drawing = (
        f"<w:r><mc:AlternateContent><mc:Choice>{box}</mc:Choice>"
        f"<mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r>"
    )
    document = parse("a.docx", docx_of(paragraph(run("before "), drawing, run("after"))))
    assert document.text == "boxed\n\nbefore after"


def test_lists_are_numbered_as_the_document_says() -> None:
    numbering = word_xml("").replace(b"document", b"numbering")
    levels = "".join(
        f'<w:lvl w:ilvl="{level}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/>'
        f'<w:lvlText w:val="{pattern}"/></w:lvl>'
        for level, start, form, pattern in (
            (0, 3, "decimal", "%1."),
            (1, 1, "lowerLetter", "%1.%2)"),
            (2, 1, "upperRoman", "%3"),
        )
    )
    numbering = numbering.replace(
        b"<w:body></w:body>",
        f'<w:abstractNum w:abstractNumId="7">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'.encode(),
    )
    body = "".join(
        paragraph(
            run(text),
            properties=f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr>',
        )
        for text, level in (("a", 0), ("b", 1), ("c", 1), ("d", 2), ("e", 0), ("f", 1))
    )
    assert parse("a.docx", docx_of(body, numbering=numbering)).text.split("\n") == [
        "3. a",
        "  3.a) b",
        "  3.b) c",
        "    I d",
        "4. e",
        "  4.a) f",
    ]


def test_footnotes_stand_at_the_end_with_their_marks() -> None:
    notes = word_xml("").replace(b"document", b"footnotes")
    separator = f'<w:footnote w:type="separator" w:id="-1">{paragraph(run("x"))}</w:footnote>'
    note = f'<w:footnote w:id="2">{paragraph(run("A note."))}</w:footnote>'
    notes = notes.replace(b"<w:body></w:body>", (separator + note).encode())
    package = docx_of(paragraph(run("Text"), '<w:r><w:footnoteReference w:id="2"/></w:r>'))
    with zipfile.ZipFile(io.BytesIO(package)) as old:
        relations = old.read("word/_rels/document.xml.rels")
    relation = b'<Relationship Id="n" Type="x/footnotes" Target="footnotes.xml"/></Relationships>'
    parts = {
        "word/footnotes.xml": notes,
        "word/_rels/document.xml.rels": relations.replace(b"</Relationships>", relation),
    }
    assert parse("a.docx", repacked(package, parts)).text == "Text[^2]\n\n[^2]: A note."


def test_a_heading_is_known_by_its_style_its_base_or_its_outline_level() -> None:
    document = docx.Document()
    style = document.styles.add_style("Chapter", docx.enum.style.WD_STYLE_TYPE.PARAGRAPH)
    style.base_style = document.styles["Heading 2"]
    document.add_paragraph("By base", style="Chapter")
    document.add_paragraph("By style", style="Heading 3")
    assert [b.level for b in parse("a.docx", saved(document)).blocks] == [2, 3]
    outline = paragraph(run("By level"), properties='<w:outlineLvl w:val="1"/>')
    assert shown(parse("a.docx", docx_of(outline))) == [("heading", 2, "By level")]


def test_a_table_in_a_table_becomes_words_of_its_cell() -> None:
    inner = docx.Document()
    outer = inner.add_table(1, 2)
    outer.cell(0, 0).text = "left"
    nested = outer.cell(0, 1).add_table(1, 2)
    nested.cell(0, 0).text, nested.cell(0, 1).text = "in", "side"
    assert parse("a.docx", saved(inner)).text == "left | in | side"


def with_declared_size(package: bytes, part: str, size_bytes: int) -> bytes:
    """The package whose directory says another unpacked size of a part."""
    with zipfile.ZipFile(io.BytesIO(package)) as opened:
        true = opened.getinfo(part).file_size
    data = bytearray(package)
    directory = data.index(b"PK\x01\x02")
    where = data.index(part.encode(), directory) - 46 + 24
    assert int.from_bytes(data[where : where + 4], "little") == true
    data[where : where + 4] = size_bytes.to_bytes(4, "little")
    return bytes(data)


BOMB_BODY = paragraph(run("x" * 1000)) * 3_000
ENTITIES = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'

BAD_PACKAGES = {
    "cut off": (report_docx()[:5_000], "damaged ZIP archive"),
    "a lie about its size": (
        with_declared_size(docx_of(BOMB_BODY), "word/document.xml", 10),
        "damaged ZIP archive",
    ),
    "entities": (
        repacked(report_docx(), {"word/document.xml": ENTITIES + word_xml("<w:p>&b;</w:p>")}),
        "defines entities, which no Word document does",
    ),
    "broken XML": (
        repacked(report_docx(), {"word/document.xml": b"<w:document"}),
        r"XML is damaged \(.*export it again",
    ),
    "no main part": (repacked(saved(docx.Document()), {"_rels/.rels": b"<x/>"}), None),
    "a workbook": (repacked(b"PK\x05\x06" + bytes(18), {"xl/a.xml": b""}), "Excel workbook; save"),
    "slides": (repacked(b"PK\x05\x06" + bytes(18), {"ppt/a.xml": b""}), "export it as PDF"),
    "an archive": (repacked(b"PK\x05\x06" + bytes(18), {"a.txt": b"x"}), "ZIP archive; unpack it"),
}


@pytest.mark.parametrize(("data", "why"), BAD_PACKAGES.values(), ids=BAD_PACKAGES)
@pytest.mark.parametrize("name", ["a.docx", "a.pdf", "a.txt"])
def test_a_bad_package_is_refused_with_what_to_do(name: str, data: bytes, why: str | None) -> None:
    with pytest.raises(UnreadableDocumentError, match=why or "no text"):
        parse(name, data)


def test_what_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1_000_000)
    with pytest.raises(ParsingLimitError, match=r"more unpacked data than the 1,000,000 bytes"):
        parse("a.docx", docx_of(BOMB_BODY))


def test_an_encrypted_part_asks_for_a_copy_without_password() -> None:
    data = bytearray(report_docx())
    directory = data.index(b"PK\x01\x02")
    while directory >= 0:
        data[directory + 8] |= 1
        directory = data.find(b"PK\x01\x02", directory + 4)
    with pytest.raises(UnreadableDocumentError, match="protected by a password"):
        parse("a.docx", bytes(data))
