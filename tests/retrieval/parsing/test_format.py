"""Which format a file has: a wrong name gives the right parser or one clear sentence."""

from collections.abc import Callable

import pytest

from retrieval.errors import UnreadableDocumentError
from retrieval.parsing import Format, Language, detect_format, parse
from tests.retrieval.parsing.files import report_docx

MakePdf = Callable[[tuple[tuple[str, ...], ...]], bytes]
PAGE = b"<!DOCTYPE html><html><body><p>x</p></body></html>"

NAMED_WRONG = {
    "HTML named .md": ("a.md", PAGE, Format.HTML),
    "HTML named .txt": ("a.txt", b"\xef\xbb\xbf <!-- saved --> <html>x", Format.HTML),
    "HTML named .pdf": ("a.pdf", PAGE, Format.HTML),
    "HTML named .csv": ("a.csv", PAGE, Format.HTML),
    "HTML in UTF-16": ("a.txt", b"\xff\xfe" + "<html>x".encode("utf-16-le"), Format.HTML),
    "text named .html": ("a.html", b"no tags here\n\n1 < 2", Format.TEXT),
    "JSON named .txt": ("a.txt", b' {"a": [1]}\n', Format.JSON),
    "JSON named .csv": ("a.csv", b'[{"a": 1}]', Format.JSON),
    "a link named .md": ("a.md", b"[a](b)", Format.MARKDOWN),
    "DOCX named .txt": ("a.txt", report_docx(), Format.DOCX),
    "DOCX named .pdf": ("a.pdf", report_docx(), Format.DOCX),
    "an unknown ending": ("a.log", b"started\n", Format.TEXT),
    "no ending": ("README", b"words", Format.TEXT),
    "a hidden file": (".gitignore", b"*.pyc", Format.TEXT),
    "an ending in capitals": ("A.CSV", b"a,b\n1,2", Format.CSV),
    "a path with backslashes": ("c:\\x.y\\a.md", b"# x", Format.MARKDOWN),
}


@pytest.mark.parametrize(("name", "data", "format_"), NAMED_WRONG.values(), ids=NAMED_WRONG)
def test_content_says_the_format_where_the_name_is_wrong(
    name: str, data: bytes, format_: Format
) -> None:
    assert detect_format(name, data) is format_


def test_php_that_starts_as_a_page_stays_php() -> None:
    found = detect_format("a.php", PAGE)
    assert isinstance(found, Language)
    assert found.name == "PHP"


def test_a_pdf_is_a_pdf_whatever_its_name(make_pdf: MakePdf) -> None:
    pdf = make_pdf((("Words",),))
    assert {detect_format(name, pdf) for name in ("a.txt", "a.docx", "a.py", "a")} == {Format.PDF}
    assert detect_format("a.pdf", b"junk\n" + pdf) is Format.PDF


def test_a_protected_word_document_is_known_by_its_container() -> None:
    container = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le")
    with pytest.raises(UnreadableDocumentError, match="protected by a password"):
        parse("a.docx", container)
