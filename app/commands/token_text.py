"""The text of one token, as it stands in the middle of a text."""

from prompts import PromptTokenizer


def token_text(tokenizer: PromptTokenizer, token_id: int) -> str:
    """The token's text; bytes that are no whole character come as surrogates (U+DC80 …).

    Decoded alone, a token may lose the space that it begins with, so that it is decoded twice in a
    row.
    """
    once, twice = tokenizer.decode([token_id]), tokenizer.decode([token_id, token_id])
    text = twice[len(once) :]
    if "\ufffd" not in text:
        return text
    return _bytes_text(tokenizer.spelling(token_id) or "")


def printable(text: str) -> str:
    """The text with `\\xe6` for bytes that are no whole character."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _bytes_text(spelled: str) -> str:
    """Source: `bytes_to_unicode` of GPT-2's encoder.py, whose alphabet byte-level BPE spells in."""
    by_character = {_gpt2_character(byte): byte for byte in range(256)}
    if any(character not in by_character for character in spelled):
        return spelled
    data = bytes(by_character[character] for character in spelled)
    return data.decode("utf-8", "surrogateescape")


def _gpt2_character(byte: int) -> str:
    """Bytes that show are their own character; the others follow from U+0100, in order."""
    if _shows(byte):
        return chr(byte)
    return chr(256 + sum(1 for other in range(byte) if not _shows(other)))


def _shows(byte: int) -> bool:
    return 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or 0xAE <= byte <= 0xFF
