"""A real Chromium before a real gateway; the engine behind it is simulated."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)

from app.admission.direct import open_store
from app.admission.keys import NewKey
from app.admission.store import OPERATOR
from app.callers import Role
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

# Every wait is for a state, however long it takes on a busy machine.
PATIENCE_MS = 90_000
SAMPLES = Path("samples/ferry")
# What every answer begins with: words to be shown, a source, and what a page must not obey.
OPENING = (
    "**Dogs pay half** [fares.md]. <img src=x onerror=window.owned=1> "
    "[a link](javascript:window.owned=1) ![](https://elsewhere.example/seen.png) "
)
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = ViewportSize(width=360, height=740)
DESK = ViewportSize(width=1280, height=900)
Scheme = Literal["light", "dark"]


def break_off_next(engine: SimulatorThread) -> None:
    """The engine drops the connection of its next answer, which has begun."""
    fault = {"kind": "drop", "after_chunks": 3}
    httpx.post(f"{engine.url}/simulator/faults", json=fault, trust_env=False).raise_for_status()


@dataclass(kw_only=True)
class Visit:
    """One browser tab: what it shows, what it asked for, what went wrong in it."""

    page: Page
    home: str
    requests: list[Request] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def go(self, place: str) -> None:
        """Opens `#/place` and waits for its title."""
        self.page.goto(f"{self.home}#/{place}")
        expect(self.page.locator("h1")).to_be_visible()

    def make_collection(self, name: str, *files: Path) -> None:
        """By the page, until all its files are read."""
        self.go("collections")
        self.page.get_by_label("New collection").fill(name)
        self.page.get_by_role("button", name="Create").click()
        expect(self.page.get_by_role("heading", name=name, level=1)).to_be_visible()
        self.page.locator("input[type=file]").set_input_files([str(file) for file in files])
        for file in files:
            row = self.page.get_by_role("row", name=file.name)
            expect(row.get_by_role("cell", name="ready", exact=True)).to_be_visible()

    def ask(self, question: str, *, tokens: int = 30) -> None:
        """Types and sends; doesn't wait for the answer."""
        self.page.get_by_label("Tokens at most").fill(str(tokens))
        self.page.get_by_label("Your question").fill(question)
        self.page.get_by_label("Your question").press("Enter")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    found = shutil.which("chromium")
    if found is None:
        pytest.fail("Chromium is needed for the pages' tests: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=_FLAGS, timeout=PATIENCE_MS
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return write_tokenizer(folder, chat_template=CHATML_TOOLS)


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> Iterator[SimulatorThread]:
    """Its answers end only where they must."""
    config = SimulatorConfig(
        model_path=model_folder,
        opening=OPENING,
        labels=("template", "tenant"),
        clock=ClockConfig(speedup=10),
    )
    with SimulatorThread(config) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(engine: SimulatorThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_gateway(gateway_settings(tmp_path_factory.mktemp("home"), engine.url)) as url:
        wait_until_ready(url)
        yield url


@pytest.fixture
def visit(chromium: Browser, gateway: str) -> Iterator[Visit]:
    with visiting(chromium, gateway) as made:
        yield made


@pytest.fixture(scope="module")
def keyed(
    model_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """A gateway that wants a key, and an admin's; its engine tells nothing of its cache."""
    home = tmp_path_factory.mktemp("home")
    with open_store(home, None) as store:
        key = store.create(NewKey(tenant="ops", role=Role.ADMIN), by=OPERATOR).key
    config = SimulatorConfig(
        model_path=model_folder, cache_report=False, clock=ClockConfig(speedup=10)
    )
    with (
        SimulatorThread(config) as engine,
        running_gateway(gateway_settings(home, engine.url)) as url,
    ):
        wait_until_ready(url)
        yield url, key


@contextmanager
def visiting(
    browser: Browser, url: str, *, scheme: Scheme = "light", phone: bool = False
) -> Iterator[Visit]:
    """A new tab with no memory of others; scripts that failed or were refused fail the test."""
    size = PHONE if phone else DESK
    context = browser.new_context(color_scheme=scheme, viewport=size)
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    visit = Visit(page=context.new_page(), home=f"{url}/ui/")

    def heard(line: ConsoleMessage) -> None:
        # A refused request is told on the page; the browser grumbles about it all the same.
        if line.type == "error" and not line.text.startswith("Failed to load resource"):
            visit.problems.append(line.text)

    visit.page.on("request", lambda request: visit.requests.append(request))
    visit.page.on("pageerror", lambda error: visit.problems.append(str(error)))
    visit.page.on("console", heard)
    try:
        yield visit
    finally:
        context.close()
    assert not visit.problems, visit.problems
