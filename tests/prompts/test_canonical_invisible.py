"""Characters that nobody sees are found, and those that shape what is seen are left alone."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.invisible import InvisibleKind, find_invisible


@pytest.mark.parametrize(
    ("character", "kind"),
    [
        ("\u00a0", InvisibleKind.SPACE),
        ("\u2009", InvisibleKind.SPACE),
        ("\u2028", InvisibleKind.SPACE),
        ("\u200b", InvisibleKind.ZERO_WIDTH),
        ("\ufeff", InvisibleKind.ZERO_WIDTH),
        ("\u2060", InvisibleKind.ZERO_WIDTH),
        ("\u202e", InvisibleKind.BIDI),
        ("\u2066", InvisibleKind.BIDI),
        ("\u200f", InvisibleKind.BIDI),
        ("\u00ad", InvisibleKind.HYPHEN),
        ("\x00", InvisibleKind.CONTROL),
        ("\x1b", InvisibleKind.CONTROL),
        ("\x85", InvisibleKind.CONTROL),
        ("\U000e0041", InvisibleKind.TAG),
        ("\ufe0f", InvisibleKind.TAG),
        ("\u200d", InvisibleKind.ZERO_WIDTH),
    ],
)
def test_an_invisible_character_is_found_with_its_kind(character: str, kind: InvisibleKind) -> None:
    (found,) = find_invisible(f"ab{character}c")
    assert (found.offset, found.character, found.kind) == (2, character, kind)


@pytest.mark.parametrize(
    "text",
    [
        "plain text\n\twith a tab\r\nand line ends",
        "naïve café — “quotes” … 日本語　全角 العربية",
        "👩‍👩‍👧 ❤️ 1️⃣ 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "ᠭᠠ᠋ᠯ می‌خواهم क्‍ष",
        "葛\U000e0100城",
    ],
)
def test_a_character_that_shapes_its_neighbours_is_no_fault(text: str) -> None:
    assert find_invisible(text) == []


def test_a_lone_carriage_return_is_found() -> None:
    assert [found.escape for found in find_invisible("a\rb\r\n")] == ["U+000D"]


@given(st.characters(categories=["Cf", "Zs", "Zl", "Zp", "Cc"]))
def test_every_format_or_space_character_is_known(character: str) -> None:
    known = {" ", "\n", "\t", "\u3000"}
    visible = "ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN"
    if character in known or unicodedata.name(character, "").startswith(visible):
        return
    assert find_invisible(f"a{character}b")


@given(st.characters(categories=["L", "N", "P", "S"]))
def test_no_letter_digit_or_sign_is_taken_for_invisible(character: str) -> None:
    blank = "FILLER", "MUSICAL", "BRAILLE"
    if not any(word in unicodedata.name(character, "") for word in blank):
        assert not find_invisible(f"a{character}b")
