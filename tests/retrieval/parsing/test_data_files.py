"""CSV, TSV, JSON and JSON Lines: rows and records that can be read on their own."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.parsing import parse
from tests.retrieval.parsing.files import shown


def texts(name: str, data: bytes) -> list[str]:
    return [text for _, _, text in shown(parse(name, data))]


def test_each_row_names_its_columns() -> None:
    data = b'Route,Price,"Days, all"\nPort Ellery,9,Mon\n\n Skerry , 12.50 ,Sun,extra\nshort\n'
    assert shown(parse("a.csv", data)) == [
        ("heading", 1, "Route, Price, Days, all"),
        ("lines", None, "Route: Port Ellery; Price: 9; Days, all: Mon"),
        ("lines", None, "Route: Skerry; Price: 12.50; Days, all: Sun; column 4: extra"),
        ("lines", None, "Route: short"),
    ]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"a,b\n1,2"),
        ("a.csv", b"a;b\n1;2"),
        ("a.csv", b"a\tb\n1\t2"),
        ("a.tsv", b"a\tb\n1\t2"),
    ],
)
def test_the_delimiter_is_found(name: str, data: bytes) -> None:
    assert texts(name, data) == ["a, b", "a: 1; b: 2"]


def test_a_comma_in_text_is_no_delimiter_where_another_fits_better() -> None:
    assert texts("a.csv", b"name;note\nA;one, two\nB;three\n")[1] == "name: A; note: one, two"


def test_a_table_without_a_head_keeps_its_first_row() -> None:
    assert texts("a.csv", b"1,2\n3,4") == ["1; 2", "3; 4"]


def test_equal_and_empty_column_names_are_told_apart() -> None:
    assert texts("a.csv", b"a,a,\n1,2,3") == ["a, a (2), column 3", "a: 1; a (2): 2; column 3: 3"]


def test_cells_of_several_lines_have_lines_of_their_own() -> None:
    assert texts("a.csv", b'a,b\n1,"x\ny"')[1] == "a: 1\nb: x\ny"


def test_an_unclosed_quote_loses_no_word() -> None:
    assert texts("a.csv", b'a,b\n1,"two\nthree,4\n')[1] == "a: 1\nb: two\nthree,4"


def test_a_table_with_a_byte_order_mark_is_read() -> None:
    assert texts("a.csv", b"\xff\xfe" + "ä,b\n1,2".encode("utf-16-le")) == ["ä, b", "ä: 1; b: 2"]


def test_json_is_lines_that_keep_every_digit_and_every_key() -> None:
    data = (
        b'{"title": "Fares", "a": 1, "a": 2, "big": 123456789012345678901234567890, "f": 1.10,'
        b'"none": [], "o": {}, "tags": ["x", "y"], "t": true, "n": null, "s": "two\\nlines\\ud800",'
        b'"stops": [{"name": "Skerry", "times": [[7, 30]]}, "end"]}'
    )
    assert texts("a.json", data) == [
        "title: Fares\na: 1\na: 2\nbig: 123456789012345678901234567890\nf: 1.10\nnone: []\no: {}\n"
        "tags: x, y\nt: true\nn: null\ns:\n  two\n  lines\ufffd\nstops:\n  - name: Skerry\n"
        "    times:\n      - 7, 30\n  - end"
    ]


def test_records_of_a_large_document_are_blocks_with_paths() -> None:
    stops = [{"name": f"stop {number}", "note": "n" * 300} for number in range(3)]
    data = json.dumps({"title": "Stops", "stops": stops, "end": "x" * 700}).encode()
    assert [(path, text.split("\n")[0][:8]) for _, path, text in shown(parse("a.json", data))] == [
        ((), "title: S"),
        (("stops[0]",), "name: st"),
        (("stops[1]",), "name: st"),
        (("stops[2]",), "name: st"),
        (("end",), "x" * 8),
    ]


def test_json_lines_are_blocks_named_by_their_lines() -> None:
    assert shown(parse("a.jsonl", b'{"a": 1}\n\n[1, 2]\n"s\xe2\x80\xa8t"\n')) == [
        ("lines", ("line 1",), "a: 1"),
        ("lines", ("line 3",), "1, 2"),
        ("body", ("line 4",), "s\nt"),
    ]


def test_json_and_json_lines_are_told_apart_by_content() -> None:
    assert texts("a.json", b'{"a": 1}\n{"a": 2}\n') == ["a: 1", "a: 2"]
    assert texts("a.jsonl", b'{"a":\n1}') == ["a: 1"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=60,
)


@given(JSON_VALUES, st.sampled_from([None, 1]))
def test_every_number_and_word_of_json_is_in_the_text(value: object, indent: int | None) -> None:
    words: list[str] = []

    def gather(part: object) -> None:
        if isinstance(part, dict):
            for key, member in part.items():
                words.extend(key.split())
                gather(member)
        elif isinstance(part, list):
            for member in part:
                gather(member)
        elif part is not None and not isinstance(part, bool):
            words.extend(str(part).split())

    gather(value)
    expected = [word for word in words if word.isascii() and word.isalnum()]
    if not expected:
        return
    text = parse("a.json", json.dumps(value, indent=indent).encode()).text
    assert all(word in text for word in expected)


CELLS = st.text(alphabet='ab1,;"\n .', max_size=6)


@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=8))
def test_every_letter_of_a_table_is_in_the_text(rows: list[list[str]]) -> None:
    quoted = "\n".join(
        ",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows
    )
    if not any(cell.strip() for row in rows for cell in row):
        return
    text = parse("a.csv", quoted.encode()).text
    for sign in "ab1":
        assert text.count(sign) >= sum(cell.count(sign) for row in rows for cell in row)
