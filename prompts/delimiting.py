"""Text of documents that can't end its own envelope.

Templates put documents between `<document name="…">` and `</document>`. What in a document's text
could be read as one of these, also by a model that reads generously (other cases, spaces within,
look-alike letters, invisible characters), has its first character written as `&lt;`. Nothing else
of the text changes: code, markup and comparisons stay as they are. A name can hold no quote, angle
bracket, line end or control character. Both functions are idempotent and give back the very object
where there is nothing to change. `docs/assembly.md` says why it is no more, and no less.
"""

import re
import unicodedata

from prompts.segments import PromptDocument

ENVELOPE = "document"

# What looks like a less-than sign.
_OPENERS = "<\u02c2\u1438\u16b2\u2039\u2329\u27e8\u276e\u2770\u2991\u3008\ufe64\uff1c"
_ESCAPED = "&lt;"
# Letters of other scripts that are drawn like those of the envelope's name; what is a font of it
# (full width, bold, circled, accented) is folded by Unicode's own tables.
_LOOK_ALIKES = str.maketrans(
    {
        "\u0501": "d", "\u13e7": "d", "\u146f": "d", "\ua4d2": "d", "\u0257": "d", "\u0111": "d",
        "\u043e": "o", "\u03bf": "o", "\u0585": "o", "\u0d20": "o", "0": "o", "\u06c1": "o",
        "\u03c3": "o", "\u00f8": "o", "\u0275": "o",
        "\u0441": "c", "\u03f2": "c", "\u1d04": "c", "\u2ca5": "c", "\u023c": "c",
        "\u03c5": "u", "\u057d": "u", "\u1d1c": "u", "\u028b": "u", "\u00b5": "u", "\u03bc": "u",
        "\u043c": "m", "\u1d0d": "m", "\u217f": "m", "\u0271": "m",
        "\u0435": "e", "\u04bd": "e", "\u212e": "e", "\u1d07": "e", "\u03b5": "e", "\u0454": "e",
        "\u0578": "n", "\u057c": "n", "\u0274": "n", "\u03b7": "n", "\u043f": "n", "\u0273": "n",
        "\u0442": "t", "\u03c4": "t", "\u1d1b": "t", "\u0167": "t",
    }
)  # fmt: skip
# What must follow an opener to be looked at more closely: perhaps spaces and a slash, then what
# could be the name's first two letters.
_SUSPECT = re.compile(rf"[{_OPENERS}](?=[\s/\\|]*(?:[dD][\soO0\x80-\U0010ffff]|[^\x00-\x7f]))")
_LONGEST_LOOK = 96
_SLASHES = "/\\|\u2044\u2215\u29f8"
_DROPPED = frozenset({"Cf", "Cc", "Mn", "Me", "Zs", "Zl", "Zp"})

_NAME_ESCAPES = {
    '"': "&quot;", "\uff02": "&quot;", "<": "&lt;", ">": "&gt;", "\uff1e": "&gt;",
    **{opener: "&lt;" for opener in _OPENERS if opener != "<"},
}  # fmt: skip
_NAME_TABLE = str.maketrans(_NAME_ESCAPES)
_NAME_CHARACTERS = re.compile(f"[{re.escape(''.join(_NAME_ESCAPES))}]")
# Controls, line ends, and what turns the direction of writing.
_NAME_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+"
)


def delimited(document: PromptDocument) -> PromptDocument:
    """The document as a prompt may show it."""
    name, text = shown_name(document.name), shown_text(document.text)
    if name is document.name and text is document.text:
        return document
    return PromptDocument(name=name, text=text)


def shown_text(text: str) -> str:
    """The text with everything that could be read as its envelope's tags made harmless."""
    if text.isascii() and "<" not in text:
        return text
    kept = 0
    parts: list[str] = []
    for found in _SUSPECT.finditer(text):
        place = found.start()
        if _reads_as_tag(text[place + 1 : place + 1 + _LONGEST_LOOK]):
            parts += (text[kept:place], _ESCAPED)
            kept = place + 1
    return "".join([*parts, text[kept:]]) if parts else text


def shown_name(name: str) -> str:
    """The name on one line, with nothing that could end the attribute it stands in."""
    if _NAME_CONTROLS.search(name):
        name = _NAME_CONTROLS.sub(" ", name)
    if _NAME_CHARACTERS.search(name):
        name = name.translate(_NAME_TABLE)
    return name


def _reads_as_tag(text: str) -> bool:
    """Whether a reader could take what follows an opener for a tag of the envelope.

    Where so much that can't be seen follows that no end is in sight, it could.
    """
    folded = unicodedata.normalize("NFKD", text).casefold().translate(_LOOK_ALIKES)
    letters = "".join(c for c in folded if unicodedata.category(c) not in _DROPPED)
    letters = letters.lstrip(_SLASHES)
    return letters.startswith(ENVELOPE) or (
        len(text) == _LONGEST_LOOK and ENVELOPE.startswith(letters)
    )
