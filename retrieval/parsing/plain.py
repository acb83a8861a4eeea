"""Plain text: decoding, paragraphs by empty lines, and headings that are underlined."""

import codecs
import re

from retrieval.documents import Block, BlockKind
from retrieval.errors import UnreadableDocumentError
from retrieval.parsing.layout import Layout, clean_text, short_title
from retrieval.parsing.limits import check_length
from retrieval.parsing.signatures import named_why

_PARAGRAPH = re.compile(r"\S.*(?:\n[^\S\n]*\S.*)*")
# A heading and its signs are short; whatever is longer isn't looked at.
_MAX_HEADING_CHARS = 1000
_LEAST_SIGNS = 3
_LEVELS = 6
# Terminal colours and form feeds stand in logs and listings; text has far fewer than this.
_CONTROLS = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_CHARS_PER_CONTROL = 20
_START_BYTES = 4096
_BINARY = (
    "it holds NUL bytes or other control characters, so it is not text; "
    "export it as text, HTML or PDF."
)
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def decode_text(name: str, data: bytes) -> str:
    """The file's text, cleaned; see `decode`."""
    return clean_text(decode(name, data))


def decode(name: str, data: bytes) -> str:
    """The file's text as it is; UTF-8, or UTF-16 when a byte order mark says so.

    Raises:
        UnreadableDocumentError: not text in either encoding. Guessing one would put other
            characters into the prompt than the author wrote.
        ParsingLimitError: more text than a document may have.
    """
    encoding, body = _encoding(data)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as exc:
        why = named_why(name) or (_BINARY if _looks_binary(body.decode("latin-1")) else None)
        raise UnreadableDocumentError(
            name,
            why
            or f"it isn't {encoding.upper()} text (byte {exc.start:,} is {body[exc.start]:#04x}); "
            "save it as UTF-8 and upload it again.",
        ) from exc
    check_length(name, len(text))
    if _looks_binary(text):
        raise UnreadableDocumentError(name, named_why(name) or _BINARY)
    return text


def decode_start(data: bytes) -> str:
    """The first characters of what may be text; what can't be decoded is left out."""
    encoding, body = _encoding(data[:_START_BYTES])
    return body.decode(encoding, errors="ignore")


def _encoding(data: bytes) -> tuple[str, bytes]:
    """The encoding, and the bytes behind the byte order mark."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return encoding, data[len(mark) :]
    return "utf-8", data


def _looks_binary(text: str) -> bool:
    return "\0" in text or len(_CONTROLS.findall(text)) > len(text) // _CHARS_PER_CONTROL


def plain_layout(text: str) -> Layout:
    """Cleaned text with its paragraphs, the runs of lines between empty lines, and headings.

    A heading is a paragraph's first line when the next one underlines it, or when signs stand above
    and below it, as in reStructuredText, READMEs and changelogs. Levels go by the order in which
    the signs first come.
    """
    blocks: list[Block] = []
    styles: list[str] = []
    for found in _PARAGRAPH.finditer(text):
        start, end = found.start(), found.start() + len(found[0].rstrip())
        while heading := _heading(text, start, end, styles):
            blocks.append(heading)
            start = min(heading.end + 1, end)
        if start < end:
            blocks.append(Block(kind=BlockKind.BODY, start=start, end=end))
    return Layout(text=text, blocks=tuple(blocks))


def _heading(text: str, start: int, end: int, styles: list[str]) -> Block | None:
    """The heading that a span begins with; its style is put among those that are known."""
    # The piece behind the last line end may be cut off.
    lines = f"{text[start : min(end, start + _MAX_HEADING_CHARS)]}\n"[:_MAX_HEADING_CHARS].split(
        "\n"
    )
    match [line.rstrip() for line in lines[:-1]]:
        case [over, title, under, *_] if _underlines(title, under) and over == under:
            style, count = over[0] * 2, 3
        case [title, under, *_] if _underlines(title, under) and not title[0].isspace():
            style, count = under[0], 2
        case _:
            return None
    if style not in styles:
        styles.append(style)
    return Block(
        kind=BlockKind.HEADING,
        start=start,
        end=start + len("\n".join(lines[:count]).rstrip()),
        level=min(styles.index(style) + 1, _LEVELS),
        title=short_title(title),
    )


def _underlines(title: str, line: str) -> bool:
    """Whether a line is one sign again and again, at least as long as the title above it."""
    return (
        len(line) >= max(_LEAST_SIGNS, len(title.strip()))
        and not line[0].isalnum()
        and line == line[0] * len(line)
        and any(character.isalnum() for character in title)
    )
