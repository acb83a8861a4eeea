"""Damaged files of every format: text whose blocks hold it all, or one refusal, nothing else."""

import random
from pathlib import Path

import pytest

from retrieval.documents import ParsedDocument
from retrieval.errors import UnreadableDocumentError
from retrieval.parsing import parse
from tests.retrieval.parsing.files import report_docx
from tests.retrieval.parsing.test_code import GOLDEN

FERRY = Path(__file__).parents[3] / "samples" / "ferry"
SEEDS = {
    "report.docx": report_docx(),
    "fares.csv": b'Route,Price,"Days, all"\nPort,9,"Mon\nTue"\n',
    "fares.json": b'{"a":[1,2,{"b":"x\\u00e9"}],"c":null}',
    "fares.jsonl": b'{"a":1}\n[2]\n',
    **{path.name: path.read_bytes() for path in sorted(FERRY.iterdir())},
    **{name: source.encode() for name, (source, _) in GOLDEN.items()},
}
SCRAPS = (b"<", b">", b'"', b"\\", b"{", b"]", b"\0", b"\xff\xfe", b"PK\x03\x04", b"%PDF-", b"\n")


def damaged(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 5, 20))):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0:
                changed[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                changed[place:place] = rng.choice(SCRAPS)
            case 2:
                del changed[place : place + rng.randrange(1, 30)]
            case _:
                changed[place:place] = bytes([rng.randrange(256)]) * rng.randrange(1, 50)
    return bytes(changed)


def check_blocks(document: ParsedDocument) -> None:
    document.text.encode()
    end = 0
    for block in document.blocks:
        assert end <= block.start < block.end
        assert not document.text[end : block.start].strip()
        assert document.text[block.start : block.end].strip()
        end = block.end
    assert not document.text[end:].strip()


@pytest.mark.parametrize("name", SEEDS)
def test_a_damaged_file_gives_text_or_a_refusal(name: str) -> None:
    rng = random.Random(name)
    check_blocks(parse(name, SEEDS[name]))
    for _ in range(60):
        data = damaged(SEEDS[name], rng)
        try:
            document = parse(rng.choice((name, "a.txt")), data)
        except UnreadableDocumentError:
            continue
        check_blocks(document)
