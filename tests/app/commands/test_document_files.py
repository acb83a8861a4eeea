"""Which files `foreword ingest` takes."""

from pathlib import Path

import click
import pytest

from app.commands.document_files import SUFFIXES, check_names, find_files
from retrieval.parsing import Format, detect_format


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.md", "a.txt", "sub/c.py", "sub/deep/d.TXT", ".git/e.txt", "f.exe", "sub/.g.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def names(*paths: str) -> list[str]:
    return [file.name for file in find_files(paths)]


def test_a_folder_gives_its_documents_but_nothing_hidden(folder: Path) -> None:
    assert names(str(folder)) == ["a.txt", "b.md", "sub/c.py", "sub/deep/d.TXT"]


def test_a_file_that_is_named_is_taken_whatever_it_is(folder: Path) -> None:
    assert names(str(folder / "f.exe"), str(folder / "missing.txt")) == ["f.exe", "missing.txt"]


def test_a_pattern_gives_what_fits(folder: Path) -> None:
    assert names(str(folder / "**" / "*.py")) == ["sub/c.py"]
    assert names(str(folder / "*")) == ["a.txt", "b.md", "f.exe"]
    with pytest.raises(click.UsageError, match="no file fits"):
        find_files([str(folder / "*.rs")])


def test_each_file_comes_once(folder: Path) -> None:
    assert names(str(folder), str(folder / "a.txt"), str(folder / "*.md")).count("a.txt") == 1


def test_a_folder_without_documents_is_told(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=r"no documents.*\.pdf"):
        find_files([str(tmp_path)])


def test_two_files_of_one_name_can_not_be_synced(folder: Path) -> None:
    (folder / "sub" / "a.txt").write_text("x")
    check_names(find_files([str(folder)]))
    with pytest.raises(click.UsageError, match=r"both be called 'a\.txt'"):
        check_names(find_files([str(folder / "a.txt"), str(folder / "sub" / "a.txt")]))


@pytest.mark.parametrize("suffix", sorted(SUFFIXES - {".pdf", ".docx", ".docm", ".dotx"}))
def test_what_is_taken_from_folders_can_be_parsed(suffix: str) -> None:
    assert detect_format(f"x{suffix}", b"some words\n") is not Format.PDF
