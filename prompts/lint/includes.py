"""Files that prompts include, on the disk."""

from contextlib import suppress
from pathlib import Path

from prompts.lint.source_file import SourceFile


def find_included(path: Path, name: str) -> SourceFile | None:
    """The file that `path` includes as `name`: beside it, or in a folder above it.

    Jinja's loaders look in a search path that isn't known here; it is one of those folders in
    all usual projects.
    """
    for folder in path.absolute().parents:
        found = folder / name
        # A folder may not be open to us, and a name be too long for a file.
        with suppress(OSError):
            if found.is_file():
                return SourceFile(found, found.read_bytes())
    return None
