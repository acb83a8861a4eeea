"""Whether what pip installed is whole on disk, and removal of what isn't.

pip believes any ``*.dist-info`` folder. One whose installation was cut short, or whose files were
damaged later, must lose that folder, so that the next ``pip install`` puts it in anew.
"""

import csv
import re
import shutil
from collections.abc import Iterator
from pathlib import Path


def site_packages(environment: Path) -> Path:
    """Where a venv keeps its packages.

    Raises:
        FileNotFoundError: there is none.
    """
    for path in environment.glob("lib/python*/site-packages"):
        return path
    raise FileNotFoundError(environment / "lib")


def installed_names(environment: Path) -> set[str]:
    """Normalised names of the distributions there, the unfinished one included."""
    folders = environment.glob("lib/python*/site-packages/*.dist-info")
    return {
        normalise(folder.name.removesuffix(".dist-info").rpartition("-")[0]) for folder in folders
    }


def normalise(name: str) -> str:
    """Source: PEP 503, normalized names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def broken_distributions(environment: Path) -> Iterator[Path]:
    """``*.dist-info`` folders with no RECORD, or with a file missing or of another size."""
    site = site_packages(environment)
    for folder in sorted(site.glob("*.dist-info")):
        if not _is_whole(folder / "RECORD", site):
            yield folder


def remove_broken(environment: Path) -> list[str]:
    """Takes broken distributions out of pip's sight; returns their names."""
    names = []
    for folder in list(broken_distributions(environment)):
        shutil.rmtree(folder)
        names.append(folder.name.removesuffix(".dist-info"))
    # What pip sets aside while it replaces a package starts with "~".
    for leftover in site_packages(environment).glob("~*"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    return names


def _is_whole(record: Path, site: Path) -> bool:
    try:
        with record.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
    except FileNotFoundError:
        return False
    return bool(rows) and all(_row_is_true(row, site) for row in rows if row)


def _row_is_true(row: list[str], site: Path) -> bool:
    """Source: PyPA specification of RECORD: path, hash, size; the latter two may be empty."""
    name, _digest, size = (*row, "", "")[:3]
    if name.endswith(".pyc"):
        return True  # made again when missing
    path = site / name
    try:
        length = path.stat().st_size
    except OSError:
        return False
    return not size or length == int(size)
