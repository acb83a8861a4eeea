"""`/ui/` over HTTP: what is served, under which policy, and that its libraries are those pinned."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.admission.direct import open_store
from app.admission.keys import NewKey
from app.admission.store import OPERATOR
from app.callers import Role
from app.ui.static_files import STATIC, read_page_file
from app.ui.vendoring import PINS, VENDOR, Package, VendoredFile, VendoringError, fetch, read_pins
from tests.gateways import gateway_settings, running_gateway

_IMPORT = re.compile(r'\bfrom "([^"]+)";$', re.MULTILINE)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway that wants keys, with no engine behind it."""
    home = tmp_path_factory.mktemp("home")
    with open_store(home, None) as store:
        store.create(NewKey(tenant="ops", role=Role.ADMIN), by=OPERATOR)
    with running_gateway(gateway_settings(home, "http://127.0.0.1:9")) as made:
        yield made


def get(url: str, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{url}{path}", headers=headers, trust_env=False)


def test_the_page_needs_no_key_and_what_it_asks_for_does(url: str) -> None:
    assert get(url, "/ui/").status_code == 200
    assert get(url, "/ui/main.js").status_code == 200
    assert get(url, "/v1/models").status_code == 401
    assert get(url, "/foreword/templates/chat").status_code == 401


def test_the_address_without_a_slash_leads_there_under_any_prefix(url: str) -> None:
    answer = get(url, "/ui", host="elsewhere.example")
    assert (answer.status_code, answer.headers["location"]) == (307, "ui/")


def test_the_policy_lets_nothing_in_but_our_own_files(url: str) -> None:
    headers = get(url, "/ui/").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_what_did_not_change_is_not_sent_again(url: str) -> None:
    first = get(url, "/ui/main.js")
    again = get(url, "/ui/main.js", **{"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["../vendor.json", "..%2fvendor.json", "vendor", "nothing.js", "a" * 5000, "%00.js"]
)
def test_no_path_leads_anywhere_else(url: str, path: str) -> None:
    answer = get(url, f"/ui/{path}")
    assert answer.status_code in (400, 401, 404)
    assert "sha512" not in answer.text


def test_every_import_is_there() -> None:
    """Modules are loaded as they are: a wrong name would be found by a browser alone."""
    page = (STATIC / "index.html").read_text()
    mapped = dict(re.findall(r'"([^"]+)": "\./([^"]+)"', page))
    assert mapped.keys() >= {"preact", "htm", "marked", "dompurify"}
    for name in mapped.values():
        assert read_page_file(name) is not None, name
    for module in STATIC.rglob("*.js"):
        for wanted in _IMPORT.findall(module.read_text()):
            if wanted.startswith("."):
                target = (module.parent / wanted).resolve()
                assert target.is_relative_to(STATIC), (module, wanted)
                assert target.is_file(), (module, wanted)
            else:
                assert wanted in mapped, (module, wanted)


def test_nothing_names_another_host() -> None:
    """No font, script or picture of elsewhere."""
    for file in STATIC.rglob("*"):
        if file.is_file() and file.parent != VENDOR:
            said = re.sub(r"http://www\.w3\.org/2000/svg", "", file.read_text())
            assert not re.search(r"https?://", said), file


def test_libraries_are_those_that_are_pinned() -> None:
    pinned = {file.name: file.sha256 for package in read_pins() for file in package.files}
    there = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in VENDOR.iterdir()}
    assert there == pinned


def test_every_library_comes_with_its_licence() -> None:
    for package in read_pins():
        assert package.licence in {"MIT", "Apache-2.0", "MPL-2.0 OR Apache-2.0"}
        assert any(file.name.endswith(".LICENSE.txt") for file in package.files), package.name


@pytest.mark.slow
def test_they_can_be_fetched_again(tmp_path: Path) -> None:
    package = next(pin for pin in read_pins(PINS) if pin.name == "htm")
    fetch(package, tmp_path)
    assert (tmp_path / "htm.mjs").read_bytes() == (VENDOR / "htm.mjs").read_bytes()


@pytest.mark.slow
def test_a_package_that_is_another_is_refused(tmp_path: Path) -> None:
    pin = next(pin for pin in read_pins(PINS) if pin.name == "htm")
    other = Package(
        name=pin.name, version=pin.version, licence=pin.licence, sha512="AAAA", files=pin.files
    )
    with pytest.raises(VendoringError, match="pinned is AAAA"):
        fetch(other, tmp_path)
    changed = (VendoredFile(source="dist/htm.mjs", name="htm.mjs", sha256="00"),)
    other = Package(
        name=pin.name, version=pin.version, licence=pin.licence, sha512=pin.sha512, files=changed
    )
    with pytest.raises(VendoringError, match="pinned is 00"):
        fetch(other, tmp_path)
    assert not list(tmp_path.iterdir())
