"""Which files of a folder are prompts, templates or Python source."""

import errno
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompts.lint.linter import PYTHON_SUFFIXES, SUFFIXES, YAML_SUFFIXES
from prompts.lint.plain_file import JINJA_SUFFIXES, TEXT_SUFFIXES

_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "build", "dist"})
# `page.html.j2` and `nginx.conf.j2` are templates of something else.
_OTHER_KINDS = frozenset({
    ".html", ".htm", ".xml", ".svg", ".css", ".js", ".ts", ".conf", ".cfg", ".ini", ".toml", ".yml",
    ".yaml", ".json", ".sql", ".sh", ".service", ".tf", ".tex", ".rst", ".py", ".go", ".java",
    ".rs", ".c", ".h", ".cpp", ".env", ".properties", ".nginx", ".dockerfile",
})  # fmt: skip
_OTHER_NAMES = frozenset({"Dockerfile", "Containerfile", "Makefile", "Jenkinsfile", "Vagrantfile"})
# What says something about prompts, and is none.
_ABOUT = frozenset({"README", "CHANGELOG", "CONTRIBUTING", "LICENSE", "NOTICE", "RULES"})
# Words of text and Markdown files and their folders that say that they hold prompts.
_PROMPT_WORD = re.compile(r"(?:^|[^a-z])prompts?(?:[^a-z]|$)", re.IGNORECASE)
_FIELDS = re.compile(rb"^(name|version|segments)[ \t]*:", re.MULTILINE)


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files named, and the prompt files in the folders named, each once, in a fixed order.

    Of YAML files only templates count, also among those named: hooks name whatever has changed.

    Raises:
        OSError: a path isn't there, or can't be read, or is something else than a file or folder.
    """
    seen: set[Path] = set()
    for path in paths:
        found = _walk(path) if path.is_dir() else _single(path)
        for file in found:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _single(path: Path) -> Iterator[Path]:
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it isn't a file or a folder", str(path))
    if path.suffix.lower() not in YAML_SUFFIXES or _is_template(path):
        yield path


def _walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            environment = (entry / "pyvenv.cfg").exists()
            if entry.name not in _SKIPPED and not environment and not entry.is_symlink():
                yield from _walk(entry)
        elif entry.is_file() and is_prompt_file(entry):
            yield entry


def is_prompt_file(path: Path) -> bool:
    """Whether a file found in a folder is one to lint."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        return False
    if suffix in PYTHON_SUFFIXES:
        return True
    if suffix in YAML_SUFFIXES:
        return _is_template(path)
    if suffix in JINJA_SUFFIXES or suffix == ".tmpl":
        inner = Path(path.stem)
        return inner.suffix.lower() not in _OTHER_KINDS and inner.name not in _OTHER_NAMES
    if suffix == ".prompt":
        return True
    assert suffix in TEXT_SUFFIXES
    if path.stem.upper() in _ABOUT:
        return False
    return any(_PROMPT_WORD.search(word) for word in (path.parent.name, path.stem))


def _is_template(path: Path) -> bool:
    """Whether a YAML file says that it is a template or an agent, be it a faulty one."""
    fields = set(_FIELDS.findall(path.read_bytes()))
    return b"segments" in fields or fields == {b"name", b"version"}
