"""What is served under `/ui/`: files of this package, with a policy that lets nothing else run.

There is no build step: a browser loads the modules as they are. Libraries lie in `static/vendor` as
their makers publish them; see `app.ui.vendoring`.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"

_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)
_EVERY_FILE: Mapping[str, str] = {
    # Asked for anew each time, and answered with 304 where nothing changed: an upgraded gateway
    # never serves half of its pages out of a browser's cache.
    "cache-control": "no-cache",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    """One file as it is sent."""

    data: bytes
    media_type: str
    headers: Mapping[str, str]

    @property
    def etag(self) -> str:
        return self.headers["etag"]


def read_page_file(path: str) -> PageFile | None:
    """The file at a path below `/ui/`, "" for the page itself; None where there is none."""
    # Looked up among those that are there: no path leads anywhere else, however it is spelled.
    there = {file.relative_to(STATIC).as_posix(): file for file in STATIC.rglob("*.*")}
    file = there.get(path or INDEX)
    media_type = None if file is None else _TYPES.get(file.suffix)
    if file is None or media_type is None:
        return None
    data = file.read_bytes()
    etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {**_EVERY_FILE, "etag": etag}
    if file.suffix == ".html":
        headers["content-security-policy"] = policy(data)
    return PageFile(data=data, media_type=media_type, headers=headers)


def policy(page: bytes) -> str:
    """A page's Content-Security-Policy: our own files, and the import map by its hash.

    Text becomes markup through the sanitizer alone (Trusted Types), and nobody frames the page.
    """
    maps = [hashlib.sha256(found).digest() for found in _IMPORT_MAP.findall(page)]
    hashes = "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in maps)
    return (
        f"default-src 'none'; script-src 'self'{hashes}; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types dompurify"
    )
