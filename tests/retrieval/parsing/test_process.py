"""The process that reads files: right answers, and harm that stays in it."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval import (
    ChunkingSettings,
    Cutting,
    HashingEmbedder,
    ProcessEmbedder,
    chunk,
    find_model,
)
from retrieval.errors import (
    ParserUnavailableError,
    ParsingLimitError,
    UnreadableDocumentError,
)
from retrieval.parsing import DocumentParser, ParsingLimits, parse
from tests.retrieval.parsing.files import docx_of, encrypted_pdf, report_docx

pytestmark = pytest.mark.slow

MakePdf = Callable[[tuple[tuple[str, ...], ...]], bytes]


@pytest.fixture(scope="module")
def parser() -> Iterator[DocumentParser]:
    opened = DocumentParser()
    yield opened
    opened.close()


def workers() -> list[int]:
    """Ids of the reading processes that this one has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        is_ours = f"PPid:\t{os.getpid()}\n" in status and b"retrieval.parsing.worker" in command
        if is_ours and "State:\tZ" not in status:
            found.append(int(folder.name))
    return found


def test_it_reads_what_is_read_here(parser: DocumentParser, tmp_path: Path) -> None:
    path = tmp_path / "report.docx"
    path.write_bytes(report_docx())
    assert parser.parse_file("report.docx", path) == parse("report.docx", path.read_bytes())
    assert parser.parse_file("a.md", "# Größe\n\nx".encode()) == parse(
        "a.md", "# Größe\n\nx".encode()
    )


def test_a_refusal_is_the_same_as_here(parser: DocumentParser) -> None:
    with pytest.raises(UnreadableDocumentError) as here:
        parse("a.txt", b"caf\xe9 au lait")
    with pytest.raises(UnreadableDocumentError) as there:
        parser.parse_file("a.txt", b"caf\xe9 au lait")
    assert str(there.value) == str(here.value)


def test_threads_share_one_process() -> None:
    parser = DocumentParser()
    texts: dict[int, str] = {}

    def read(number: int) -> None:
        texts[number] = parser.parse_file("a.txt", f"file {number}".encode()).text

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    before = len(workers())
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {number: f"file {number}" for number in range(8)}
    assert len(workers()) == before + 1
    parser.close()
    assert len(workers()) == before


def test_a_closed_parser_says_so() -> None:
    parser = DocumentParser()
    parser.close()
    with pytest.raises(ParserUnavailableError, match="closed"):
        parser.parse_file("a.txt", b"x")


@pytest.mark.parametrize(("seconds", "memory"), [(0, 1 << 30), (1, 1 << 20)])
def test_limits_that_let_nothing_through_are_refused(seconds: float, memory: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        ParsingLimits(max_seconds=seconds, max_memory_bytes=memory)


def test_what_takes_too_long_is_ended_and_the_next_file_is_read() -> None:
    parser = DocumentParser(ParsingLimits(max_seconds=3))
    slow = b"- a\n\n# b\n\n" * 1_000_000
    with pytest.raises(ParsingLimitError, match="more time than the 3 seconds"):
        parser.parse_file("a.md", slow)
    assert parser.parse_file("a.txt", b"next").text == "next"
    parser.close()


def test_what_takes_too_much_memory_is_refused_and_the_next_file_is_read() -> None:
    parser = DocumentParser(ParsingLimits(max_memory_bytes=1 << 26))
    with pytest.raises(ParsingLimitError, match="more memory than the 67,108,864 bytes") as caught:
        parser.parse_file("a.json", b"[" + b"[]," * 1_500_000 + b"[]]")
    assert (caught.value.limit, caught.value.unit) == ("memory", "bytes")
    with pytest.raises(ParsingLimitError, match="more memory"):
        parser.parse_file("a.txt", b"x" * (40 << 20))
    assert parser.parse_file("a.txt", b"next").text == "next"
    parser.close()


def test_a_process_that_was_killed_is_replaced(parser: DocumentParser) -> None:
    assert parser.parse_file("a.txt", b"one").text == "one"
    for worker in workers():
        os.kill(worker, signal.SIGKILL)
    assert parser.parse_file("a.txt", b"two").text == "two"


def test_closing_ends_a_file_that_is_being_read() -> None:
    parser = DocumentParser()
    assert parser.parse_file("a.txt", b"x").text == "x"
    errors: list[Exception] = []

    def read() -> None:
        try:
            parser.parse_file("a.md", b"- a\n\n# b\n\n" * 1_000_000)
        except ParserUnavailableError as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    time.sleep(0.5)
    parser.close()
    thread.join(timeout=60)
    assert [str(error)[:35] for error in errors] == ["The document parser can't be started"[:35]]


BIG_BODY = "<w:p><w:r><w:t>" + "y" * 50_000 + "</w:t></w:r></w:p>"
HARMFUL = {
    "200 MB of text": ("a.txt", lambda: b"word " * 40_000_000, "more text than the 20,000,000"),
    "a zip bomb": ("a.docx", lambda: docx_of(BIG_BODY * 6_000), "more (text|unpacked data)"),
    "deep HTML": ("a.html", lambda: b"<div>" * 100_000 + b"x", "nest deeper"),
    "deep inline HTML": ("a.html", lambda: b"<b>" * 100_000 + b"x", "nest deeper"),
    "deep JSON": ("a.json", lambda: b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nests deeper"),
    "NULs in a table": ("a.csv", lambda: b"a,b\n1,\0\n", "NUL bytes"),
    "an empty file": ("a.pdf", lambda: b"", "empty"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "make", "why"), HARMFUL.values(), ids=HARMFUL)
def test_a_harmful_file_ends_with_one_clear_sentence(
    parser: DocumentParser, name: str, make: Callable[[], bytes], why: str
) -> None:
    with pytest.raises(UnreadableDocumentError, match=why):
        parser.parse_file(name, make())
    assert parser.parse_file("a.txt", b"next").text == "next"


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_a_protected_pdf_asks_for_a_copy_without_password(
    parser: DocumentParser, make_pdf: MakePdf, algorithm: str
) -> None:
    pdf = encrypted_pdf(make_pdf((("Secret",),)), "pass", algorithm)
    with pytest.raises(UnreadableDocumentError, match="protected by a password"):
        parser.parse_file("a.pdf", pdf)


@pytest.mark.slow
def test_large_documents_are_read(parser: DocumentParser, make_pdf: MakePdf) -> None:
    """10,000 pages of HTML (about 20 MB), 1,000 pages of PDF, a table with cells of a megabyte."""
    html = b"<html><body>" + b"<h2>Page</h2><p>word <b>word</b> word</p>" * 10_000
    assert parser.parse_file("a.html", html).text.count("Page") == 10_000
    pdf = make_pdf(tuple((f"Page {number} of many.",) for number in range(1_000)))
    assert parser.parse_file("a.pdf", pdf).blocks[-1].page == 1_000
    table = b"name,text\n" + b"\n".join(b"r%d," % n + b"x" * 1_000_000 for n in range(5))
    assert len(parser.parse_file("a.csv", table).blocks) == 6


@pytest.mark.parametrize("measure", ["words", "a model's tokenizer"])
def test_passages_are_those_that_are_cut_here(measure: str) -> None:
    data = ("# Fares\n\n" + "Adults pay nine euros, children four. " * 200).encode()
    if measure == "words":
        tokenizer, count_tokens = None, HashingEmbedder().count_tokens
    else:
        model = find_model("all-minilm-l6-v2")
        tokenizer = str(model.folder)
        count_tokens = ProcessEmbedder(model).count_tokens
    here = parse("a.md", data)
    passages = chunk(
        here, count_tokens=count_tokens, settings=ChunkingSettings(max_tokens=64, min_tokens=8)
    )
    opened = DocumentParser(cutting=Cutting(max_tokens=64, min_tokens=8, tokenizer=tokenizer))
    try:
        document, found = opened.read_file("a.md", data)
        assert len(found) > 10
        assert (document, found) == (replace(here, blocks=()), tuple(passages))
        assert opened.parse_file("a.md", data) == here
        with pytest.raises(UnreadableDocumentError, match="holds no text"):
            opened.read_file("a.md", b" ")
    finally:
        opened.close()


def test_a_tokenizer_that_is_not_there_is_no_files_fault(tmp_path: Path) -> None:
    opened = DocumentParser(cutting=Cutting(max_tokens=64, tokenizer=str(tmp_path)))
    try:
        with pytest.raises(ParserUnavailableError, match=r"tokenizer\.json"):
            opened.read_file("a.md", b"text")
        started = workers()
        with pytest.raises(ParserUnavailableError):
            opened.read_file("a.md", b"text")
        assert workers() == started
    finally:
        opened.close()


def test_cutting_has_a_time_of_its_own_and_no_more() -> None:
    opened = DocumentParser(
        ParsingLimits(max_seconds=3), cutting=Cutting(max_tokens=64, tokenizer=None)
    )
    try:
        assert opened.read_file("a.txt", b"text")[1][0].text == "text"
        with pytest.raises(ParsingLimitError, match="more time than the 3 seconds"):
            opened.read_file("a.txt", b"some words and signs; " * 800_000)
        assert opened.read_file("a.txt", b"text")[1][0].text == "text"
    finally:
        opened.close()
