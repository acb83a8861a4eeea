"""Lint settings from `foreword.toml` or from `[tool.foreword.lint]` of `pyproject.toml`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prompts.errors import PromptError

_LISTS = ("select", "ignore")
_NUMBERS = ("page-size", "chunk-size")
_WORDS = ("fail-on", "tokenizer")


class LintConfigError(PromptError):
    """A configuration file can't be read, or says something that isn't known."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LintConfig:
    """What a file sets; None and empty for what it doesn't."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    page_size: int | None = None
    chunk_size: int | None = None
    fail_on: str | None = None
    tokenizer: Path | None = None


def find_config(folder: Path) -> Path | None:
    """The nearest configuration file with lint settings, in a folder or one above it."""
    for parent in (folder, *folder.parents):
        for name in ("foreword.toml", "pyproject.toml"):
            path = parent / name
            if path.is_file() and _table(path):
                return path
    return None


def read_config(path: Path) -> LintConfig:
    """The settings of a file.

    Raises:
        LintConfigError: it isn't TOML, or has a setting that is unknown or of a wrong type.
    """
    table = _table(path)
    for key, value in table.items():
        _check(path, key, value)
    tokenizer = table.get("tokenizer")
    return LintConfig(
        select=tuple(table.get("select", ())),
        ignore=tuple(table.get("ignore", ())),
        page_size=table.get("page-size"),
        chunk_size=table.get("chunk-size"),
        fail_on=table.get("fail-on"),
        tokenizer=path.parent / tokenizer if tokenizer else None,
    )


def _table(path: Path) -> Mapping[str, Any]:
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LintConfigError(path, f"can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LintConfigError(path, f"not valid TOML: {error}") from error
    keys = ("lint",) if path.name == "foreword.toml" else ("tool", "foreword", "lint")
    for key in keys:
        data = data.get(key, {})
        if not isinstance(data, dict):
            raise LintConfigError(path, f"[{'.'.join(keys)}] must be a table")
    return data


def _check(path: Path, key: str, value: object) -> None:
    if key in _LISTS:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise LintConfigError(path, f"{key} must be a list of codes or names")
    elif key in _NUMBERS:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise LintConfigError(path, f"{key} must be a whole number from 1")
    elif key in _WORDS:
        if not isinstance(value, str):
            raise LintConfigError(path, f"{key} must be text")
    else:
        known = ", ".join((*_LISTS, *_NUMBERS, *_WORDS))
        raise LintConfigError(path, f"{key} isn't a lint setting; there are: {known}")
