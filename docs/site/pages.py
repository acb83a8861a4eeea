"""Which pages the site has, and in which order: read from `docs/README.md`, and from links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath

CONTENTS = PurePosixPath("docs/README.md")

_HEADING = re.compile(r"^## (.+)$")
_ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)#]+)\)")
_LINK = re.compile(r"\]\(([^)\s]+\.md)(?:#[^)\s]*)?\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One heading of the contents and the pages under it: titles, and paths from the root."""

    title: str
    pages: tuple[tuple[str, PurePosixPath], ...]


def parts(root: Path) -> tuple[Part, ...]:
    """The contents, in their order."""
    found: list[tuple[str, list[tuple[str, PurePosixPath]]]] = []
    for line in (root / CONTENTS).read_text("utf-8").splitlines():
        if heading := _HEADING.match(line):
            found.append((heading[1], []))
        elif item := _ITEM.match(line):
            found[-1][1].append((item[1], _from(CONTENTS, item[2])))
    return tuple(Part(title=title, pages=tuple(pages)) for title, pages in found)


def linked(root: Path) -> tuple[PurePosixPath, ...]:
    """Every page that can be reached from the contents, itself included, sorted."""
    seen: set[PurePosixPath] = set()
    waiting = [CONTENTS]
    while waiting:
        page = waiting.pop()
        if page not in seen and (root / page).is_file():
            seen.add(page)
            waiting += _links(root, page)
    return tuple(sorted(seen))


def _links(root: Path, page: PurePosixPath) -> Iterator[PurePosixPath]:
    for link in _LINK.finditer((root / page).read_text("utf-8")):
        if ":" not in link[1]:
            yield _from(page, link[1])


def _from(page: PurePosixPath, link: str) -> PurePosixPath:
    return PurePosixPath(normpath(str(page.parent / link)))
