"""Files that `foreword lint` reads and rewrites, and what Git says has changed."""

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from app.commands.tokenizer import CommandInputError
from prompts.lint.changed_lines import ChangedLines, parse_diff
from prompts.lint.source_file import SourceFile

_GIT_S = 60
_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def read_source(path: Path) -> SourceFile:
    """A file's bytes.

    Raises:
        CommandInputError: it can't be read.
    """
    try:
        return SourceFile(path, path.read_bytes())
    except OSError as error:
        raise CommandInputError(f"{path} can't be read: {error.strerror}") from error


def write_source(source: SourceFile) -> None:
    """Replace a file's bytes at once, its mode kept; a link stays a link.

    Raises:
        CommandInputError: it can't be written, or is marked as read-only.
    """
    path = source.path.resolve()
    if not path.stat().st_mode & _WRITABLE or not os.access(path, os.W_OK):
        raise CommandInputError(f"{path} can't be written: it is read-only")
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(source.data)
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(path, name)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CommandInputError(f"{path} can't be written: {error.strerror}") from error


def changed_since(revision: str) -> ChangedLines:
    """The lines of the working tree that differ from a revision, files unknown to Git included.

    Raises:
        CommandInputError: there is no such revision, no repository, or no Git.
    """
    if revision.startswith("-"):
        raise CommandInputError(f"{revision!r} is not a revision")
    root = Path(_git("rev-parse", "--show-toplevel").strip())
    diff = _git("diff", "-U0", "--no-prefix", "--no-color", "--no-ext-diff", revision, "--")
    names = _git("ls-files", "--others", "--exclude-standard", "--full-name", "-z", ":/")
    new = [root / name for name in names.split("\0") if name]
    return parse_diff(diff, root, new)


def _git(*arguments: str) -> str:
    command = ["git", "-c", "core.quotePath=false", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=_GIT_S)
    except FileNotFoundError as error:
        raise CommandInputError("--diff needs git, which isn't installed") from error
    except subprocess.TimeoutExpired as error:
        raise CommandInputError(f"git {arguments[0]} took more than {_GIT_S} s") from error
    except subprocess.CalledProcessError as error:
        problem = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise CommandInputError(f"git {arguments[0]}: {problem}") from error
    return done.stdout.decode(errors="surrogateescape")
