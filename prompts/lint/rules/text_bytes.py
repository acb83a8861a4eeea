"""FW201, 202, 203, 207: bytes of literal text that nobody sees and every token depends on."""

import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from prompts.invisible import Invisible, InvisibleKind
from prompts.lint.context import LintContext
from prompts.lint.findings import Edit, Finding, Fix, FixSafety, Severity
from prompts.lint.part import Part
from prompts.lint.pieces import Text
from prompts.lint.prompt_source import PromptSource
from prompts.lint.rule import Rule, Subject
from prompts.lint.text_scan import Blemish, Mark

_HARD_BREAK = "  "


class MarkRule(Rule):
    """Base of rules about marks that the scanner leaves in literal text."""

    blemish: Blemish

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part, piece in prompt.texts():
            if piece.stop - piece.start != len(piece.text):
                continue  # Written as `{{ "…" }}`: it was meant.
            for mark in context.scanner.of(piece.text, self.blemish):
                found = self.report(prompt, part, piece, mark)
                if found is not None:
                    yield found

    def report(self, prompt: PromptSource, part: Part, piece: Text, mark: Mark) -> Finding | None:
        """The finding for a mark; None where it is no fault."""
        raise NotImplementedError


def _replacing(
    part: Part, piece: Text, mark: Mark, text: str, safety: FixSafety, description: str
) -> Fix | None:
    edit = part.locator.edit(piece.start + mark.start, piece.start + mark.stop, text)
    return Fix(safety=safety, description=description, edits=(edit,)) if edit else None


class TrailingWhitespace(MarkRule):
    """Spaces or tabs at the end of a line.

    ## What it does
    Finds spaces and tabs in front of line ends and at the end of the text. Markdown's hard line
    break (two spaces in a `.md` file) is left alone.

    ## Why it costs
    Nobody sees them, so an editor that strips them on saving changes every prompt: the cache starts
    cold. A space at the very end also splits the next word's token ("seam").

    ## Example
    ```jinja
    You are a helpful assistant.
    Answer in one sentence.\x20
    {{ question }}
    ```

    ## Use instead
    ```jinja
    You are a helpful assistant.
    Answer in one sentence.
    {{ question }}
    ```

    ## Fix safety
    Safe: the whitespace is deleted, the model reads the same words.

    ## References
    warpfront/hipfire#122 lists it among the bytes that cost prefix re-use.
    """

    code = "FW201"
    name = "trailing-whitespace"
    severity = Severity.NOTE
    fixes = (FixSafety.SAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)
    blemish = Blemish.TRAILING

    def report(self, prompt: PromptSource, part: Part, piece: Text, mark: Mark) -> Finding | None:
        at_end = mark.stop == len(piece.text)
        stop = piece.start + mark.stop
        if at_end and not _line_ends(prompt, part, stop):
            return None
        blank = piece.text[mark.start : mark.stop]
        if blank == _HARD_BREAK and not at_end and prompt.source.path.suffix == ".md":
            return None
        if piece.text[: mark.start].rpartition("\n")[2] == "" and _opens_tag(part, stop):
            return None
        return self.finding(
            message="The line ends in whitespace that an editor may strip; delete it.",
            place=part.locator.place(piece.start + mark.start, stop),
            fix=_replacing(
                part, piece, mark, "", FixSafety.SAFE, "delete the whitespace at the line's end"
            ),
        )


def _line_ends(prompt: PromptSource, part: Part, stop: int) -> bool:
    """Whether nothing follows on the line: in a template, the next segment of the role may."""
    if stop < len(part.text):
        return part.text[stop] == "\n"
    follower = next((b for a, b in pairwise(prompt.parts) if a is part), None)
    return follower is None or follower.role != part.role or follower.text.startswith("\n")


def _opens_tag(part: Part, stop: int) -> bool:
    return part.text.startswith(("{%", "{{", "{#"), stop)


class MixedNewlines(Rule):
    """Line ends that aren't plain line feeds.

    ## What it does
    Finds carriage returns in prompt files (CRLF or CR line ends). In templates YAML has made line
    feeds of them already.

    ## Why it costs
    CRLF and LF are different tokens. The same file checked out on Windows, or read in binary mode,
    gives another prompt than the one the cache holds.

    ## Example
    ```jinja
    You are a helpful assistant.\r
    Answer in one sentence.\r
    {{ question }}
    ```

    ## Use instead
    ```jinja
    You are a helpful assistant.
    Answer in one sentence.
    {{ question }}
    ```

    ## Fix safety
    Safe: all line ends become LF. Mark prompt files `-text` in `.gitattributes` to keep them so.

    ## References
    warpfront/hipfire#122; `docs/canonical-bytes.md` for what Foreword normalises at run time.
    """

    code = "FW202"
    name = "mixed-newlines"
    severity = Severity.WARNING
    fixes = (FixSafety.SAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        first = prompt.source.data.find(b"\r")
        if first >= 0 and prompt.template is None:
            yield self.finding(
                message="The file has carriage returns at line ends; use line feeds only.",
                place=prompt.source.place(first, first + 1),
                fix=_line_feeds(prompt.source.data),
            )


def _line_feeds(data: bytes) -> Fix:
    edits = []
    position = data.find(b"\r")
    while position >= 0:
        stop = position + (2 if data.startswith(b"\r\n", position) else 1)
        edits.append(Edit(start=position, stop=stop, replacement=b"\n"))
        position = data.find(b"\r", stop)
    return Fix(safety=FixSafety.SAFE, description="use line feeds", edits=tuple(edits))


class NotNfc(MarkRule):
    """Text that isn't in Unicode NFC.

    ## What it does
    Finds characters spelled by several code points where Unicode has one spelling for them (an `e`
    and a combining accent instead of `é`), as macOS file names and some editors do.

    ## Why it costs
    Both look the same and are different tokens: a copy of the text typed elsewhere shares nothing
    behind the first such character. Foreword puts templates into NFC when it reads them: there it
    is a note.

    ## Example
    ```jinja
    You are the waiter of the cafe\u0301 on the corner. Be friendly.
    {{ question }}
    ```

    ## Use instead
    ```jinja
    You are the waiter of the caf\u00e9 on the corner. Be friendly.
    {{ question }}
    ```

    ## Fix safety
    Safe: the characters are put into NFC, the text reads the same.

    ## References
    Unicode Standard Annex 15, normalization forms.
    """

    code = "FW203"
    name = "not-nfc"
    severity = Severity.WARNING
    fixes = (FixSafety.SAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)
    blemish = Blemish.NOT_NFC

    def report(self, prompt: PromptSource, part: Part, piece: Text, mark: Mark) -> Finding | None:
        text = unicodedata.normalize("NFC", piece.text[mark.start : mark.stop])
        return self.finding(
            message="The character isn't in Unicode NFC, so that the same text typed elsewhere is "
            "another prompt; write it in NFC.",
            place=part.locator.place(piece.start + mark.start, piece.start + mark.stop),
            severity=Severity.NOTE if prompt.template else None,
            fix=_replacing(part, piece, mark, text, FixSafety.SAFE, "write it in NFC"),
        )


class InvisibleCharacter(MarkRule):
    """A character that nobody sees: no-break space, zero width, byte-order mark, bidi control…

    ## What it does
    Finds characters without a visible form, and spaces that look like a space and are none. Joiners
    and variation selectors that shape their neighbours (emoji, Persian, Hindi) are left alone.

    ## Why it costs
    They come in by copy and paste, change the tokens, and break the prefix where they come and go.
    Bidi controls and tag characters can also hide instructions from a reviewer.

    ## Example
    ```jinja
    You are a helpful\u00a0assistant.\u200b Answer briefly.
    {{ question }}
    ```

    ## Use instead
    ```jinja
    You are a helpful assistant. Answer briefly.
    {{ question }}
    ```

    ## Fix safety
    Safe for no-break spaces (they become spaces) and for byte-order marks and zero-width spaces
    (they are deleted); deleting any other is unsafe. In templates, `allow` keeps those that are
    meant.

    ## References
    warpfront/hipfire#122; Unicode Technical Report 36.
    """

    code = "FW207"
    name = "invisible-character"
    severity = Severity.WARNING
    fixes = (FixSafety.SAFE, FixSafety.UNSAFE)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)
    blemish = Blemish.INVISIBLE

    def report(self, prompt: PromptSource, part: Part, piece: Text, mark: Mark) -> Finding | None:
        found = mark.invisible
        if found is None or found.kind in part.allow:
            return None
        text, safety = _visible(found)
        what = unicodedata.name(found.character, "a control character").lower()
        return self.finding(
            message=f"{found.escape} ({what}) can't be seen and changes the tokens; "
            + ("write a plain space." if text else "delete it."),
            place=part.locator.place(piece.start + mark.start, piece.start + mark.stop),
            fix=_replacing(
                part, piece, mark, text, safety, "write a space" if text else "delete it"
            ),
        )


def _visible(found: Invisible) -> tuple[str, FixSafety]:
    if found.kind is InvisibleKind.SPACE:
        return ("\n" if found.character in "\u2028\u2029" else " "), FixSafety.SAFE
    if found.character in "\ufeff\u200b\u2060":
        return "", FixSafety.SAFE
    return "", FixSafety.UNSAFE


RULES: tuple[type[Rule], ...] = (TrailingWhitespace, MixedNewlines, NotNfc, InvisibleCharacter)
