"""Chunking: structure kept where it fits, the token bound always, every word exactly once."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.chunking import ChunkingSettings, chunk
from retrieval.errors import UnreadableDocumentError
from retrieval.parsing import parse

CountTokens = Callable[[str], int]

SMALL = ChunkingSettings(max_tokens=24, min_tokens=6)


def words(text: str) -> int:
    return len(text.split())


def test_sections_that_are_large_enough_stay_apart() -> None:
    source = b"# A\n\none two three four five six\n\n## B\n\nseven eight nine ten eleven twelve\n"
    passages = chunk(parse("a.md", source), count_tokens=words, settings=SMALL)
    assert [(p.heading_path, p.text.split("\n")[0]) for p in passages] == [
        (("A",), "# A"),
        (("A", "B"), "## B"),
    ]


def test_small_sections_share_a_passage() -> None:
    passages = chunk(
        parse("a.md", b"# A\n\none\n\n# B\n\ntwo\n"), count_tokens=words, settings=SMALL
    )
    assert [p.text for p in passages] == ["# A\n\none\n\n# B\n\ntwo"]


def test_a_heading_stays_with_the_text_below_it() -> None:
    body = " ".join(f"word{n}" for n in range(40)).encode()
    passages = chunk(parse("a.md", b"# Top\n\n" + body), count_tokens=words, settings=SMALL)
    assert passages[0].text.startswith("# Top\n\nword0")
    assert all(p.heading_path == ("Top",) for p in passages)


def test_headings_of_the_same_or_a_higher_level_end_a_path() -> None:
    source = "".join(f"{h}\n\n{'w ' * 20}\n\n" for h in ("# A", "## B", "### C", "## D", "# E"))
    passages = chunk(parse("a.md", source.encode()), count_tokens=words, settings=SMALL)
    assert [p.heading_path for p in passages] == [
        ("A",),
        ("A", "B"),
        ("A", "B", "C"),
        ("A", "D"),
        ("E",),
    ]


def test_a_long_paragraph_is_cut_at_sentences() -> None:
    source = " ".join(f"This is sentence number {n} of it." for n in range(9)).encode()
    passages = chunk(parse("a.txt", source), count_tokens=words, settings=SMALL)
    assert len(passages) == 3
    assert all(p.text.startswith("This") and p.text.endswith("of it.") for p in passages)


def test_a_passage_knows_its_page(make_pdf: Callable[..., bytes]) -> None:
    lines = tuple("a line of six words here" for _ in range(6))
    passages = chunk(parse("a.pdf", make_pdf((lines, lines))), count_tokens=words, settings=SMALL)
    assert [p.page for p in passages] == [1, 1, 2, 2]


@pytest.mark.parametrize(("max_tokens", "min_tokens"), [(15, 0), (16, 17), (16, -1)])
def test_sizes_that_make_no_sense_are_refused(max_tokens: int, min_tokens: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        ChunkingSettings(max_tokens=max_tokens, min_tokens=min_tokens)


def test_code_is_cut_at_lines_not_at_sentences_in_its_comments() -> None:
    body = "".join(f"    step({n})  # Does this. Then that.\n" for n in range(12))
    passages = chunk(
        parse("a.py", f"def f():\n{body}".encode()), count_tokens=words, settings=SMALL
    )
    assert len(passages) > 1
    assert all(p.text.endswith("that.") for p in passages)
    assert all(p.heading_path == ("f",) for p in passages)


def test_small_definitions_share_a_passage_under_what_they_have_in_common() -> None:
    source = b"class A:\n    def f(self): ...\n\n    def g(self): ...\n"
    [passage] = chunk(parse("a.py", source), count_tokens=words, settings=SMALL)
    assert passage.heading_path == ("A",)


def test_later_parts_of_a_table_stand_under_its_first_row() -> None:
    rows = "".join(f"| stop {n} | {n} euros |\n" for n in range(12))
    source = f"# Fares\n\n| Stop | Price |\n|---|---|\n{rows}"
    passages = chunk(parse("a.md", source.encode()), count_tokens=words, settings=SMALL)
    assert passages[0].heading_path == ("Fares",)
    assert {p.heading_path for p in passages[1:]} == {("Fares", "Stop | Price")}
    assert all(p.text.endswith("|") for p in passages)


def test_rows_of_a_table_stay_whole() -> None:
    rows = b"".join(b"name %d,a. b. c\n" % n for n in range(30))
    passages = chunk(parse("a.csv", b"who,what\n" + rows), count_tokens=words, settings=SMALL)
    assert all(line.startswith("who: name") for p in passages[1:] for line in p.text.split("\n\n"))


def test_a_long_line_without_spaces_is_cut_to_size(count_tokens: CountTokens) -> None:
    document = parse("a.txt", b"x7Qz" * 5_000)
    passages = chunk(document, count_tokens=count_tokens)
    assert "".join(p.text for p in passages) == document.text
    assert max(p.token_count for p in passages) <= 192


def test_words_of_more_tokens_than_a_passage_may_have_are_cut() -> None:
    source = " ".join("x" * 50 for _ in range(9)) + "\n|"
    sizes = ChunkingSettings(max_tokens=16, min_tokens=0)
    passages = chunk(parse("a.js", source.encode()), count_tokens=len, settings=sizes)
    assert max(p.token_count for p in passages) <= 16
    assert "".join(p.text for p in passages).count("x") == 450


def test_a_tokenizer_whose_counts_do_not_add_up_still_keeps_the_bound() -> None:
    def count(text: str) -> int:
        return len(text) ** 2 // 50 + 1

    source = " ".join(f"word{n}" for n in range(300))
    passages = chunk(parse("a.txt", source.encode()), count_tokens=count, settings=SMALL)
    assert all(p.token_count == count(p.text) <= 24 for p in passages)
    assert " ".join(p.text for p in passages) == source


def test_the_work_grows_with_the_length_of_the_text() -> None:
    """Encoded characters, not seconds: the old search encoded a text 15 times."""

    def encoded_chars(paragraphs: int) -> float:
        total = 0

        def count(text: str) -> int:
            nonlocal total
            total += len(text)
            return len(text.split())

        numbered = (f"Paragraph {n} says a few words. And more of them." for n in range(paragraphs))
        document = parse("a.txt", "\n\n".join(numbered).encode())
        chunk(document, count_tokens=count)
        return total / len(document.text)

    assert encoded_chars(500) < 4
    assert encoded_chars(5_000) < 4


FORMATS = [
    ".txt",
    ".md",
    ".html",
    ".csv",
    ".tsv",
    ".json",
    ".jsonl",
    ".py",
    ".js",
    ".c",
    ".rb",
    ".kt",
]
SCRAPS = [
    "ferry ",
    "9:30. ",
    "\n",
    "\n\n",
    "# ",
    "- ",
    "x" * 40,
    "| a | b |\n|---|---|\n",
    "<p>",
    "<h2>",
    "<table><tr><td>",
    "</td></tr></table>",
    "a,b\n",
    '"',
    ";",
    "{",
    "}",
    "[1, 2]",
    '{"k": "v"}',
    ":",
    "def f():\n    ",
    "class A:\n",
    "function f() {",
    "end\n",
    "\u00e9\U0001f6a2",
    "\u2028",
    "```\n",
]


@settings(deadline=None)
@given(
    source=st.one_of(
        st.text(min_size=1),
        st.lists(st.sampled_from(SCRAPS), max_size=80).map("".join).filter(str.strip),
    ),
    ending=st.sampled_from(FORMATS),
    max_tokens=st.integers(16, 64),
    share=st.floats(0, 1),
)
def test_passages_hold_every_word_once_and_keep_the_bound(
    count_tokens: CountTokens, source: str, ending: str, max_tokens: int, share: float
) -> None:
    sizes = ChunkingSettings(max_tokens=max_tokens, min_tokens=int(max_tokens * share))
    try:
        document = parse(f"a{ending}", source.encode())
    except UnreadableDocumentError:
        return
    passages = chunk(document, count_tokens=count_tokens, settings=sizes)
    end = 0
    for position, passage in enumerate(passages):
        assert passage.position == position
        assert passage.text == document.text[passage.start : passage.end] == passage.text.strip()
        assert not document.text[end : passage.start].strip()
        assert passage.token_count == count_tokens(passage.text) <= max_tokens
        end = passage.end
    assert not document.text[end:].strip()
    assert chunk(document, count_tokens=count_tokens, settings=sizes) == passages
    assert len({passage.id for passage in passages}) == len(passages)
