"""Every command in the pages is run by a test, or says why it is not."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, RUNNABLE, SHELLS, Block, blocks
from tests.docs.console import Step, fits, steps

_COMMANDS = re.compile(
    r"^\s*(?:\$ |foreword \w|\.venv/bin/|make \w|curl |docker |kubectl |python3? -m |pip |export )",
    re.MULTILINE,
)
_ALL = [block for page in PAGES if page.is_file() for block in blocks(page)]


def named(block: Block) -> str:
    return block.place


def test_there_are_pages_and_blocks() -> None:
    assert len(PAGES) > 40
    assert sum(block.language in RUNNABLE for block in _ALL) > 60


@pytest.mark.parametrize("block", [b for b in _ALL if b.language in RUNNABLE], ids=named)
def test_a_block_of_commands_is_run_or_says_why_not(block: Block) -> None:
    problem = (
        "put `<!-- run -->` or `<!-- not run: why -->` before the block (tests/docs/blocks.py)"
    )
    assert block.is_marked, f"{block.place}: {problem}"
    assert block.run is None or block.text.strip()


@pytest.mark.parametrize("block", [b for b in _ALL if b.language not in RUNNABLE], ids=named)
def test_other_blocks_hold_no_commands(block: Block) -> None:
    assert block.language not in SHELLS, f"{block.place}: call it `bash` or `console`"
    if block.language in {"", "text"} and not _is_usage(block):
        found = _COMMANDS.search(block.text)
        assert found is None, f"{block.place}: {found[0]!r} is a command; call the block `bash`"


def _is_usage(block: Block) -> bool:
    """The command line's own usage lines, of the page that is made from it."""
    return block.page == ROOT / "docs" / "cli.md"


def test_marks_are_read() -> None:
    def marked(comment: str | None) -> Block:
        return Block(page=ROOT / "x.md", line=1, language="bash", text="true", comment=comment)

    assert not marked(None).is_marked
    assert not marked("<!-- not run -->").is_marked, "a reason is needed"
    assert marked("<!-- not run: no GPU -->").is_marked
    assert marked("<!-- not run: no GPU -->").run is None
    run = marked("<!-- run: own gateway, in lint, exit 1, other output -->").run
    assert run is not None
    assert (run.own_gateway, run.folder, run.status, run.compared) == (True, "lint", 1, False)
    with pytest.raises(Exception, match="no way to run"):
        assert marked("<!-- run: quickly -->").run


def test_the_comment_must_stand_directly_above(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- run -->\n```bash\ntrue\n```\n\n<!-- run -->\n\nText.\n\n```bash\nfalse\n```\n"
    )
    first, second = blocks(page)
    assert first.comment == "<!-- run -->"
    assert second.comment is None


def test_console_blocks_have_commands_and_outputs() -> None:
    text = "$ a \\\n    --b\none\n\n$ c\n$ d\ntwo …\n"
    assert list(steps(text)) == [
        Step(command="a \\\n    --b", output=("one",)),
        Step(command="c", output=()),
        Step(command="d", output=("two …",)),
    ]


@pytest.mark.parametrize(
    ("shown", "came", "same"),
    [
        (("a", "b"), "a\nb\n", True),
        (("a", "b"), "a\nc\n", False),
        (("a … c",), "a 12 c", True),
        (("a … c",), "a 12 d", False),
        (("a", "…", "z"), "a\nb\nc\nz", True),
        (("one long", "  line"), "one long line\n", True),
        (("1.5 (x)*",), "1.5 (x)*", True),
        (("1.5",), "115", False),
    ],
)
def test_dots_stand_for_anything(shown: tuple[str, ...], came: str, *, same: bool) -> None:
    assert fits(shown, came) is same
