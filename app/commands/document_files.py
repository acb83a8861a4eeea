"""Which files `foreword ingest` takes, and what they are called in a collection."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import has_magic
from itertools import takewhile
from pathlib import Path

import click

# What is taken from a folder; a file that is named itself is always tried.
SUFFIXES = frozenset({
    # text and documents
    ".txt", ".text", ".md", ".markdown", ".rst", ".adoc", ".org", ".tex", ".log", ".html", ".htm",
    ".xhtml", ".pdf", ".docx", ".docm", ".dotx",
    # data
    ".csv", ".tsv", ".tab", ".json", ".geojson", ".ipynb", ".jsonl", ".ndjson", ".xml", ".yaml",
    ".yml", ".toml", ".ini", ".cfg",
    # source code
    ".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".java", ".go",
    ".rs", ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".cs", ".rb", ".php", ".sh",
    ".bash", ".kt", ".kts", ".swift", ".scala", ".lua", ".pl", ".pm", ".r", ".jl", ".hs", ".ex",
    ".exs", ".erl", ".clj", ".dart", ".m", ".sql", ".css", ".scss", ".proto", ".tf",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFile:
    """A file to ingest.

    Attributes:
        name: what it is called in the collection: its path below the folder that was given.
    """

    name: str
    path: Path


def find_files(paths: Iterable[str]) -> list[DocumentFile]:
    """The files that paths, folders and patterns name, each once, in a fixed order.

    Raises:
        click.UsageError: a pattern fits nothing, or there is no document at all.
    """
    found: dict[Path, DocumentFile] = {}
    for text in paths:
        for file in _named(text):
            found.setdefault(file.path, file)
    if not found:
        raise click.UsageError(
            "there are no documents in these folders; looked for text, Markdown, HTML, .pdf, .docx,"
            " CSV, JSON and source code"
        )
    return list(found.values())


def check_names(files: Iterable[DocumentFile]) -> None:
    """Refuse two files of one name, of which the second would replace the first.

    Raises:
        click.UsageError: names both.
    """
    by_name: dict[str, Path] = {}
    for file in files:
        other = by_name.setdefault(file.name, file.path)
        if other != file.path:
            raise click.UsageError(
                f"{other} and {file.path} would both be called {file.name!r}; with --sync, give "
                "the folder that holds both"
            )


def _named(text: str) -> Iterator[DocumentFile]:
    path = Path(text)
    if path.is_dir():
        for file in sorted(_walked(path)):
            yield DocumentFile(name=file.relative_to(path).as_posix(), path=file)
    elif path.exists() or not has_magic(text):
        yield DocumentFile(name=path.name, path=path)
    else:
        yield from _matching(text)


def _matching(pattern: str) -> Iterator[DocumentFile]:
    """The files that fit a pattern, called by their path below its fixed beginning."""
    parts = Path(pattern).parts
    fixed = list(takewhile(lambda part: not has_magic(part), parts))
    base = Path(*fixed)
    matches = sorted(base.glob("/".join(parts[len(fixed) :])))
    files = [path for path in matches if path.is_file()]
    if not files:
        raise click.UsageError(f"no file fits {pattern!r}")
    for path in files:
        yield DocumentFile(name=path.relative_to(base).as_posix(), path=path)


def _walked(folder: Path) -> Iterator[Path]:
    """Documents below a folder, but nothing hidden."""
    for path in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not is_hidden and path.suffix.lower() in SUFFIXES and path.is_file():
            yield path
