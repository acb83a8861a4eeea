"""The code blocks of the pages, and what the comment before each says about running it.

A block of `bash`, `console` or `python` has a comment directly before it:

    <!-- run -->                            it is run, in the order of the page
    <!-- run: own gateway -->               from here on the page has an empty gateway to itself
    <!-- run: in NAME -->                   from here on in a copy of `tests/docs/folders/NAME`, or
                                            with `clone` again in what looks like a clone
    <!-- run: exit 1 -->                    its last command ends with this status
    <!-- run: other output -->              the output that is shown is not the one that comes
    <!-- not run: it needs a GPU -->        and why

Several words of a `run` are separated by commas.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent.parent
PAGES = tuple(
    ROOT / path
    for path in (
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "examples/README.md",
        *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")),
    )
)

RUNNABLE = frozenset({"bash", "console", "python"})
# Other names for shells would slip by unmarked.
SHELLS = frozenset({"sh", "shell", "zsh", "shell-session"})

_COMMENT = re.compile(r"^<!-- (not run|run)(?:: (.+?))? -->$")
_PARSER = MarkdownIt()


class MarkError(Exception):
    """A comment before a block that says nothing that is known."""

    def __init__(self, block: "Block", problem: str) -> None:
        super().__init__(f"{block.place}: {problem}")


def named(page: Path) -> str:
    """Its path from the root."""
    return str(page.relative_to(ROOT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a block is run.

    Attributes:
        own_gateway: begin with an empty gateway.
        folder: where to work from here on; None: where the block before did.
        status: what the last command ends with.
        compared: the output that is shown must be the one that comes.
    """

    own_gateway: bool = False
    folder: str | None = None
    status: int = 0
    compared: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block; `comment` is the line of HTML before it, if there is one."""

    page: Path
    line: int
    language: str
    text: str
    comment: str | None

    @property
    def place(self) -> str:
        """File and line, as editors take them."""
        return f"{named(self.page)}:{self.line}"

    @property
    def is_marked(self) -> bool:
        """Its comment says that it is run, or why it is not."""
        found = _COMMENT.match(self.comment or "")
        return found is not None and (found[1] == "run" or bool(found[2]))

    @property
    def run(self) -> Run | None:
        """None: it is not run.

        Raises:
            MarkError: the comment has words that mean nothing.
        """
        found = _COMMENT.match(self.comment or "")
        if found is None or found[1] == "not run":
            return None
        own_gateway, folder, status, compared = False, None, 0, True
        for word in (found[2] or "").split(", "):
            match word.split():
                case []:
                    pass
                case ["own", "gateway"]:
                    own_gateway = True
                case ["in", name]:
                    folder = name
                case ["exit", number]:
                    status = int(number)
                case ["other", "output"]:
                    compared = False
                case _:
                    raise MarkError(self, f"{word!r} is no way to run a block")
        return Run(own_gateway=own_gateway, folder=folder, status=status, compared=compared)


def blocks(page: Path) -> Iterator[Block]:
    """All code blocks of a page, in their order; one that is only indented has no language."""
    before: Token | None = None
    for token in _PARSER.parse(page.read_text("utf-8")):
        if token.type in {"fence", "code_block"}:
            assert token.map is not None
            yield Block(
                page=page,
                line=token.map[0] + 1,
                language=token.info.strip(),
                text=token.content,
                comment=_comment(before, token),
            )
        before = token


def _comment(before: Token | None, fence: Token) -> str | None:
    """The comment that stands directly above."""
    if before is None or before.type != "html_block" or before.map is None or fence.map is None:
        return None
    # An HTML block that ends in `-->` ends there; one empty line may follow it.
    return before.content.strip() if fence.map[0] - before.map[1] <= 1 else None
