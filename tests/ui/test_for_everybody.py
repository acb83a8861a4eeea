"""The pages for those who see, point or hold less: by keyboard, by screen reader, on a phone."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from app.ui.vendoring import fetch, read_pins
from tests.ui.conftest import SAMPLES, Scheme, Visit, visiting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PLACES = ("chat", "collections", "report", "templates", "plan", "explain/last", "nowhere")
_SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def axe(engine_cache: Path) -> str:
    """axe-core's script, fetched once by npm and checked against its digest."""
    (package,) = read_pins(Path(__file__).with_name("axe.json"))
    folder = engine_cache / "npm" / f"axe-core-{package.version}"
    script = folder / "axe.min.js"
    if not script.is_file():
        fetch(package, folder)
    return script.read_text("utf-8")


@pytest.fixture(scope="module")
def talk(chromium: Browser, gateway: str) -> str:
    """Where a conversation about documents is, so that pages have something to show."""
    with visiting(chromium, gateway) as visit:
        visit.make_collection("ferry", *sorted(SAMPLES.iterdir()))
        visit.page.get_by_role("link", name="Ask this collection").click()
        for number, question in enumerate(("What does a dog pay?", "And a bicycle?")):
            visit.ask(question)
            expect(visit.page.locator("li.turn").nth(number).locator(".reuse")).to_be_visible()
        return visit.page.url.rpartition("#/")[2]


def show(visit: Visit, place: str) -> None:
    """Opens a place and waits until it has loaded what it shows."""
    visit.go(place)
    visit.page.wait_for_load_state("networkidle")
    expect(visit.page.get_by_text("Loading…")).to_have_count(0)


def faults(page: Page, axe: str) -> list[dict[str, Any]]:
    """What axe finds that keeps somebody from using the page."""
    page.evaluate(axe)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        {"rule": each["id"], "where": [node["html"] for node in each["nodes"]]}
        for each in found
        if each["impact"] in _SERIOUS
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_keeps_anybody_out(
    chromium: Browser, gateway: str, talk: str, axe: str, scheme: Scheme
) -> None:
    with visiting(chromium, gateway, scheme=scheme) as visit:
        for place in (*PLACES, talk):
            show(visit, place)
            assert faults(visit.page, axe) == [], place
        expect(visit.page.locator(".reuse").first).to_be_visible()
        assert faults(visit.page, axe) == []
        visit.page.locator(".source").first.click()
        expect(visit.page.locator("dialog mark")).to_be_visible()
        assert faults(visit.page, axe) == []
        visit.go("collections")
        visit.page.get_by_role("link", name="ferry").first.click()
        expect(visit.page.get_by_role("row", name="fares.md")).to_be_visible()
        assert faults(visit.page, axe) == []


def test_a_key_can_be_entered_by_everybody(
    chromium: Browser, keyed: tuple[str, str], axe: str
) -> None:
    with visiting(chromium, keyed[0]) as visit:
        show(visit, "chat")
        expect(visit.page.get_by_role("heading", name="Your key")).to_be_visible()
        assert faults(visit.page, axe) == []


def test_no_page_scrolls_sideways_on_a_phone(chromium: Browser, gateway: str, talk: str) -> None:
    with visiting(chromium, gateway, phone=True) as visit:
        for place in (*PLACES, talk):
            show(visit, place)
            wider = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, place


def test_all_is_within_reach_of_the_keyboard(chromium: Browser, gateway: str, talk: str) -> None:
    """From the first key: past the navigation, a question, its source and back, the flame."""
    with visiting(chromium, gateway) as visit:
        page = visit.page
        show(visit, "chat")
        page.keyboard.press("Tab")
        expect(page.get_by_text("To the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        tab_to(page, page.get_by_label("Answer from"))
        page.keyboard.type("ferry")
        expect(page.get_by_label("Answer from")).not_to_have_value("")
        page.keyboard.press("Shift+Tab")
        expect(page.get_by_label("Your question")).to_be_focused()
        page.get_by_label("Tokens at most").fill("30")
        page.get_by_label("Your question").focus()
        page.keyboard.type("What does a cat pay?")
        page.keyboard.press("Enter")
        expect(page.locator("#announced")).to_contain_text("The answer is complete.")
        source = page.locator(".source").first
        page.keyboard.press("Shift+Tab")
        tab_to(page, source, back=True)
        page.keyboard.press("Enter")
        expect(page.locator("dialog mark")).to_be_visible()
        page.keyboard.press("Escape")
        expect(source).to_be_focused()

        show(visit, "report")
        expect(page.get_by_role("heading", name="Report", level=1)).to_be_focused()
        root = page.locator(".piece").first
        tab_to(page, root)
        page.keyboard.press("ArrowDown")
        expect(root).not_to_be_focused()
        expect(page.locator(".piece.at")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Zoom out")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Zoom out")).not_to_be_attached()


def test_colours_are_chosen_and_kept(visit: Visit) -> None:
    page = visit.page
    visit.go("chat")
    light = page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    page.get_by_role("button", name="Colours: auto").click()
    page.get_by_role("button", name="Colours: light").click()
    page.reload()
    expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
    dark = page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    assert dark != light


def tab_to(page: Page, wanted: Any, *, back: bool = False) -> None:
    """Presses Tab until something has the focus; it must be among the next hundred."""
    for _ in range(100):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Shift+Tab" if back else "Tab")
    pytest.fail(f"{wanted} can't be reached by the keyboard")
