"""Headings of plain text: lines that are underlined."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.documents import BlockKind
from retrieval.parsing import parse


def headings(text: str) -> list[tuple[int, str]]:
    blocks = parse("notes.rst", text.encode()).blocks
    return [(block.level, block.title) for block in blocks if block.kind is BlockKind.HEADING]


def test_levels_go_by_the_order_in_which_the_signs_come() -> None:
    text = "====\nBook\n====\n\nFirst\n=====\n\ntext\n\nPart\n----\n\nSecond\n======\n\nmore\n"
    assert headings(text) == [(1, "Book"), (2, "First"), (3, "Part"), (2, "Second")]


def test_text_directly_below_a_heading_is_its_own_block() -> None:
    blocks = parse("a.txt", b"Fares\n-----\nAdults 9 euros.\nChildren 4.\n").blocks
    text = "Fares\n-----\nAdults 9 euros.\nChildren 4."
    assert [(block.kind, text[block.start : block.end]) for block in blocks] == [
        (BlockKind.HEADING, "Fares\n-----"),
        (BlockKind.BODY, "Adults 9 euros.\nChildren 4."),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "A sentence that is longer\n-------",
        "a  b\n=====  =====\nc  d",
        "+-----+\n|  a  |\n+-----+",
        "    indented\n    --------",
        "=====\n-----\n=====",
        "***",
        "ab\n--",
        "rule above\n\n----------\n\nrule below",
        "one\ntwo\n---",
        "word\nwwww",
    ],
)
def test_what_only_looks_like_a_heading_is_text(text: str) -> None:
    assert headings(text) == []


@given(st.text("ab -=~\n\t", max_size=80))
def test_blocks_hold_all_that_is_not_white_space(text: str) -> None:
    document = parse("a.txt", f"x{text}".encode())
    held = "".join(document.text[block.start : block.end] for block in document.blocks)
    assert "".join(held.split()) == "".join(document.text.split())
    starts = [place for block in document.blocks for place in (block.start, block.end)]
    assert starts == sorted(starts)


@pytest.mark.parametrize("unit", ["a", "=", "a\n", "a b ", "aaa\n===\n", "===\n"])
def test_time_grows_with_the_length_only(unit: str) -> None:
    began = time.thread_time()
    parse("a.txt", (unit * (500_000 // len(unit))).encode())
    assert time.thread_time() - began < 5.0
