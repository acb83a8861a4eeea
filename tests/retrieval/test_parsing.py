"""Parsing: the words and the structure of each format, and a clear refusal of everything else."""

import codecs
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.documents import BlockKind, ParsedDocument
from retrieval.errors import UnreadableDocumentError
from retrieval.parsing import parse

MakePdf = Callable[[tuple[tuple[str, ...], ...]], bytes]


def block_texts(document: ParsedDocument) -> list[str]:
    return [document.text[block.start : block.end] for block in document.blocks]


def titles(document: ParsedDocument) -> list[tuple[int, str]]:
    return [(b.level, b.title) for b in document.blocks if b.kind is BlockKind.HEADING]


def test_text_is_cut_into_paragraphs() -> None:
    document = parse("a.txt", b"One\nline.\n\n \nTwo.\n")
    assert document.media_type == "text/plain"
    assert block_texts(document) == ["One\nline.", "Two."]


def test_newlines_controls_and_unicode_form_are_made_one() -> None:
    document = parse("a.txt", "caf\u0065\u0301\r\nnext\x07\x0cpage\u2028line".encode())
    assert document.text == "caf\u00e9\nnext\npage\nline"


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ],
)
def test_a_byte_order_mark_says_the_encoding(mark: bytes, encoding: str) -> None:
    assert parse("a.txt", mark + "für".encode(encoding)).text == "für"


def test_markdown_has_headings_items_tables_and_code() -> None:
    source = (
        "# Top\nIntro *here*.\n\n- one\n- two\n  - inner\n\n> quoted\n\n| a | b |\n|---|---|\n"
        "| 1 | 2 |\n\nUnder\n-----\n```\ncode\n\nmore\n```\n"
    )
    document = parse("a.md", source.encode())
    assert document.text == source
    assert titles(document) == [(1, "Top"), (2, "Under")]
    assert block_texts(document) == [
        "# Top",
        "Intro *here*.",
        "- one",
        "- two",
        "  - inner",
        "> quoted",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "Under\n-----",
        "```\ncode\n\nmore\n```",
    ]


def test_front_matter_is_not_a_heading() -> None:
    document = parse("a.md", b"---\ntitle: x\n---\n# Top\n")
    assert titles(document) == [(1, "Top")]
    assert block_texts(document)[0] == "---\ntitle: x\n---"


def test_markdown_link_definitions_stay_in_the_text() -> None:
    document = parse("a.md", b"[a]: https://example.org\n\nSee [a].\n\n[b]: https://example.com\n")
    assert block_texts(document) == [
        "[a]: https://example.org",
        "See [a].\n\n[b]: https://example.com",
    ]


def test_html_gives_what_a_reader_sees() -> None:
    source = b"""<html><head><title>Page</title><style>p {}</style></head><body>
    <script>bad()</script><p hidden>unseen</p><h1>Top <em>one</em><br>two</h1>
    <p>a<b>b</b><!-- no -->&copy;&nbsp;d<br>e</p>loose
    <ol><li>first</li><li><p>second</p><ul><li>inner</li></ul></li></ol>
    <table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td><p>2</p><p>3</p></td><td></td></tr></table>
    <pre>x
  y</pre></body></html>"""
    document = parse("a.html", source)
    assert titles(document) == [(1, "Top one two")]
    assert block_texts(document) == [
        "Top one two",
        "ab\u00a9 d\ne",
        "loose",
        "1. first\n2. second\n- inner",
        "A | B\n1 | 2 3",
        "x\n  y",
    ]


def test_html_without_a_top_heading_is_headed_by_its_title() -> None:
    document = parse("a.htm", b"<title> The\npage </title><body><h2>Part</h2>text")
    assert titles(document) == [(1, "The page"), (2, "Part")]


def test_pdf_pages_and_paragraphs_are_known(make_pdf: MakePdf) -> None:
    document = parse("a.pdf", make_pdf((("One (1).", "Still one."), ("Two.",))))
    assert document.text == "One (1).\nStill one.\n\nTwo."
    assert [block.page for block in document.blocks] == [1, 2]


def test_a_pdf_is_known_by_its_content_whatever_its_name(make_pdf: MakePdf) -> None:
    assert parse("a.txt", make_pdf((("Words",),))).media_type == "application/pdf"


def test_ids_follow_content_and_format_not_the_name() -> None:
    assert parse("a.md", b"# x").id == parse("b/c.MD", b"# x").id
    assert parse("a.md", b"# x").id != parse("a.txt", b"# x").id
    assert parse("a.md", b"# x").id != parse("a.md", b"# y").id


def encrypted(pdf: bytes) -> bytes:
    """The PDF with an encryption entry whose password nobody has."""
    entry = (
        f"/ID [<{'00' * 16}> <{'00' * 16}>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 "
        f"/O <{'11' * 32}> /U <{'22' * 32}> >> /Root"
    )
    return pdf.replace(b"/Root", entry.encode())


BAD_FILES = {
    "empty": ("a.txt", b"", "empty"),
    "only white space": ("a.txt", b" \n\t\n", "holds no text"),
    "only tags": ("a.html", b"<p> </p><script>x</script>", "holds no text"),
    "latin-1": ("a.txt", b"caf\xe9 au lait", r"byte 3 is 0xe9\); save it as UTF-8"),
    "broken UTF-8 in HTML": ("a.html", b"<p>\xff</p>", "save it as UTF-8"),
    "cut UTF-16": ("a.txt", codecs.BOM_UTF16_LE + b"a", "UTF-16-LE"),
    "binary": ("a.txt", b"ab\0cd", "NUL bytes"),
    "control characters": ("a.txt", b"\x01\x02\x03\x04text", "it is not text; export it"),
    "a picture": ("a.png", b"\x89PNG\r\n", r"a PNG picture; run text recognition \(OCR\)"),
    "a damaged picture": ("a.png", b"abc\xff\xfe not text", r"a picture, which isn't read: .*OCR"),
    "a picture of control characters": ("a.JPG", b"\x01\x02\x03", r"a picture, which isn't read"),
    "no encoding at all": ("a.dat", b"\x00\xff\x01\x02", "it is not text; export it"),
    "a picture named .txt": ("a.txt", b"\xff\xd8\xff\xe0", "a JPEG picture"),
    "a gzip file named .csv": ("a.csv", b"\x1f\x8b\x08", "a gzip archive; unpack it"),
    "a tar file": ("a.txt", b"x" * 257 + b"ustar\x0000", "a tar archive; unpack it"),
    "an old Office file": ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "save it as DOCX or PDF"),
    "a ZIP file's first bytes": ("a.docx", b"PK\x03\x04", "a damaged ZIP archive; export it again"),
    "text named .docx": ("a.docx", b"hello", "no Word document in it"),
    "broken JSON": ("a.json", b'{"a": 1,\n "b"}', r"isn't valid JSON \(line 2: .*mend it"),
    "a broken JSON line": ("a.jsonl", b'{"a": 1}\n{"b"\n', r"isn't valid JSON \(line 2: "),
    "deep JSON": ("a.json", b"[" * 100_000 + b"]" * 100_000, "nests deeper than 200 levels"),
    "not a PDF": ("a.pdf", b"hello", "no PDF header"),
    "a PDF's first bytes": ("a.pdf", b"%PDF-1.7\n", "damaged or not a complete PDF"),
    "deep HTML": ("a.html", b"<div>" * 200_000 + b"x", "nest deeper than 5,000"),
}


@pytest.mark.parametrize(("name", "data", "why"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_refused_with_what_to_do(name: str, data: bytes, why: str) -> None:
    with pytest.raises(UnreadableDocumentError, match=why) as caught:
        parse(name, data)
    assert caught.value.name == name
    assert str(caught.value).startswith(f"{name!r} can't be read: ")


def test_an_encrypted_pdf_asks_for_a_copy_without_password(make_pdf: MakePdf) -> None:
    with pytest.raises(UnreadableDocumentError, match="protected by a password"):
        parse("a.pdf", encrypted(make_pdf((("Secret",),))))


def test_a_pdf_of_pictures_asks_for_text_recognition(make_pdf: MakePdf) -> None:
    with pytest.raises(UnreadableDocumentError, match=r"2 pages hold no text.*OCR"):
        parse("a.pdf", make_pdf(((), ())))


def test_a_damaged_pdf_gives_text_or_a_refusal_never_another_error(make_pdf: MakePdf) -> None:
    intact = make_pdf((("Hello world.", "Second line."), ("Page two.",)))
    rng = random.Random(7)
    for _ in range(300):
        data = bytearray(intact)
        for _ in range(rng.choice([1, 4, 40])):
            data[rng.randrange(9, len(data))] = rng.randrange(256)
        try:
            assert parse("a.pdf", bytes(data)).text
        except UnreadableDocumentError as error:
            assert error.why  # noqa: PT017


HTML_SCRAPS = [
    "<p>",
    "</p>",
    "<ul>",
    "<li>",
    "</ul>",
    "<ol>",
    "</ol>",
    "<table>",
    "<tr>",
    "<td>",
    "</td>",
    "</table>",
    "<pre>",
    "</pre>",
    "<h1>",
    "</h1>",
    "<h3>",
    "</h3>",
    "<br>",
    "text",
    "<b>",
    "</b>",
    "<div hidden>",
    "</div>",
]


@settings(deadline=None)
@given(
    st.sampled_from(["a.txt", "a.md", "a.html"]),
    st.one_of(
        st.text(),
        st.text(alphabet="ab #-*>`|\n\t1.[]()=_~<&;"),
        st.lists(st.sampled_from(HTML_SCRAPS)).map(" ".join),
    ),
)
def test_blocks_hold_all_text_in_order(name: str, source: str) -> None:
    try:
        document = parse(name, source.encode())
    except UnreadableDocumentError:
        return
    end = 0
    for block in document.blocks:
        assert end <= block.start < block.end
        assert not document.text[end : block.start].strip()
        assert document.text[block.start : block.end].strip()
        end = block.end
    assert not document.text[end:].strip()
    assert parse(name, source.encode()) == document
