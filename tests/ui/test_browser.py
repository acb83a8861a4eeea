"""The pages in a real browser, used as people use them."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from bench.engine_sim import SimulatorThread
from tests.ui.conftest import SAMPLES, Visit, break_off_next, visiting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HOSTILE_NAME = "<img src=x onerror=window.owned=1>.md"


def test_from_an_upload_to_an_explanation(visit: Visit) -> None:
    """Documents in, a question, its source, what was re-used, the report, the story of it."""
    page = visit.page
    visit.make_collection("ferry", SAMPLES / "fares.md", SAMPLES / "tickets.txt")
    page.get_by_role("link", name="Ask this collection").click()
    visit.ask("What does a dog pay?")
    first = page.locator("li.turn").nth(0)
    expect(first.locator(".reuse")).to_be_visible()
    expect(first.locator(".markdown strong")).to_have_text("Dogs pay half")
    expect(first.locator("[data-part=gpu]")).to_have_text("0")
    assert first.locator("[data-part=computed]").inner_text().replace(",", "").isdecimal()

    visit.ask("And a bicycle?")
    second = page.locator("li.turn").nth(1)
    expect(second.locator(".reuse")).to_be_visible()
    expect(second.locator("[data-part=verdict]")).to_have_text("hit")
    assert int(second.locator("[data-part=gpu]").inner_text().replace(",", "")) > 0

    second.get_by_role("button", name="fares.md").click()
    passage = page.get_by_role("dialog", name="fares.md")
    expect(passage.locator("mark")).to_contain_text("Skerrow Ferry")
    page.keyboard.press("Escape")
    expect(passage).not_to_be_attached()

    page.get_by_role("link", name="Report").click()
    expect(page.get_by_role("row", name="docqa@2")).to_be_visible()
    expect(page.get_by_role("group", name="Prefix flame")).to_be_visible()
    expect(page.locator(".piece", has_text="fares.md").first).to_be_visible()

    page.get_by_role("link", name="Explain the last request").click()
    expect(page.locator(".story .head")).to_contain_text("hit · docqa@2")
    expect(page.locator(".story [data-part=verdict]")).to_have_text("hit")


def test_nothing_is_asked_of_anybody_else(visit: Visit, gateway: str) -> None:
    """Neither by the pages themselves nor by what answers name."""
    visit.go("chat")
    visit.ask("Hello?")
    expect(visit.page.locator(".reuse")).to_be_visible()
    for place in ("collections", "report", "templates", "plan", "explain/last"):
        visit.go(place)
    assert len(visit.requests) > 20
    assert {request.url.removeprefix(gateway)[0] for request in visit.requests} == {"/"}


def test_what_others_wrote_is_text(visit: Visit, tmp_path: Path) -> None:
    """File names, questions and answers can spell markup; the page obeys none of it."""
    page = visit.page
    file = tmp_path / HOSTILE_NAME
    file.write_text("Dogs pay half on the ferry. <script>window.owned=1</script>")
    visit.make_collection("<b>hostile</b>", file)
    page.get_by_role("link", name="Ask this collection").click()
    visit.ask("<svg onload=window.owned=1>?", tokens=200)
    turn = page.locator("li.turn")
    expect(turn.locator(".reuse")).to_be_visible()
    expect(turn.locator(".question")).to_contain_text("<svg onload=window.owned=1>?")
    expect(turn.locator(".markdown")).to_contain_text("<img src=x onerror=window.owned=1>")
    expect(turn.locator(".markdown")).to_contain_text("[picture:")
    assert page.locator("main img, main svg, main script, main b").count() == 0
    assert page.locator('a[href^="javascript"]').count() == 0
    assert page.evaluate("window.owned") is None


def test_a_file_that_cannot_be_read_says_why_and_holds_no_other_up(
    visit: Visit, tmp_path: Path
) -> None:
    page = visit.page
    program, empty = tmp_path / "tool.bin", tmp_path / "empty.txt"
    program.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(200))
    empty.write_bytes(b"")
    visit.make_collection("mixed", SAMPLES / "fares.md")
    page.locator("input[type=file]").set_input_files([str(program), str(empty)])
    row = page.get_by_role("row", name="tool.bin")
    expect(row.locator(".problem")).to_contain_text("can't be read")
    refused = page.get_by_role("list", name="Uploads").get_by_role("listitem")
    expect(refused.filter(has_text="empty.txt").locator(".problem")).to_contain_text("empty")


def test_files_may_be_dropped(visit: Visit) -> None:
    page = visit.page
    visit.make_collection("dropped", SAMPLES / "fares.md")
    dragged = page.evaluate_handle(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["Pier 3 is closed in winter."], "pier.txt"));
          return data;
        }"""
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": dragged})
    row = page.get_by_role("row", name="pier.txt")
    expect(row.get_by_role("cell", name="ready", exact=True)).to_be_visible()


def test_an_answer_can_be_stopped_and_the_conversation_goes_on(visit: Visit) -> None:
    page = visit.page
    visit.go("chat")
    visit.ask("Tell me all.", tokens=7000)
    turn = page.locator("li.turn").nth(0)
    expect(turn.locator(".markdown")).to_contain_text("Dogs pay half")
    page.get_by_role("button", name="Stop").click()
    expect(turn.get_by_text("You stopped this answer")).to_be_visible()
    expect(page.get_by_label("Your question")).to_have_value("Tell me all.")
    visit.ask("Briefly, please.", tokens=20)
    expect(page.locator("li.turn").nth(1).locator(".reuse")).to_be_visible()


def test_an_engine_that_dies_in_the_middle_is_told_in_a_sentence(
    visit: Visit, engine: SimulatorThread
) -> None:
    page = visit.page
    visit.go("chat")
    break_off_next(engine)
    visit.ask("What does a dog pay?", tokens=200)
    turn = page.locator("li.turn")
    expect(turn.get_by_role("alert")).to_be_visible()
    told = turn.get_by_role("alert").inner_text()
    assert 20 < len(told) < 300, told
    assert "\n" not in told
    assert turn.locator(".reuse").count() == 0
    expect(page.get_by_label("Your question")).to_have_value("What does a dog pay?")


def test_conversations_are_there_again_and_can_be_forgotten(visit: Visit) -> None:
    page = visit.page
    visit.go("chat")
    visit.ask("A question to be found again")
    expect(page.locator(".reuse")).to_be_visible()
    page.reload()
    turn = page.locator("li.turn")
    expect(turn.locator(".question")).to_contain_text("A question to be found again")
    expect(turn.locator("[data-part=verdict]")).to_be_visible()
    page.get_by_role("button", name="Delete A question to be found again").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="A question to be found again")).not_to_be_attached()
    expect(page.locator("li.turn")).to_have_count(0)


def test_a_key_is_asked_for_tried_and_kept_in_this_tab_alone(
    chromium: Browser, keyed: tuple[str, str]
) -> None:
    url, key = keyed
    with visiting(chromium, url) as visit:
        page = visit.page
        visit.go("report")
        expect(page.get_by_role("heading", name="Your key")).to_be_visible()
        page.get_by_label("Key", exact=True).fill("fw-wrong")
        page.get_by_role("button", name="Use this key").click()
        expect(page.get_by_role("alert")).to_contain_text("key")
        assert page.evaluate("sessionStorage.length") == 0

        page.get_by_label("Key", exact=True).fill(key)
        page.get_by_role("button", name="Use this key").click()
        expect(page.get_by_role("heading", name="Report")).to_be_visible()
        assert page.evaluate("Object.values(sessionStorage)") == [key]
        assert key not in str(page.evaluate("Object.values(localStorage)"))
        page.reload()
        expect(page.get_by_role("heading", name="Report")).to_be_visible()
        assert not [request.url for request in visit.requests if key in request.url]
        assert page.context.cookies() == []

        page.get_by_role("button", name="Forget key").click()
        expect(page.get_by_role("heading", name="Your key")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0


def test_what_is_not_known_is_never_shown_as_nought(
    chromium: Browser, keyed: tuple[str, str]
) -> None:
    """Its engine reports no cached tokens."""
    url, key = keyed
    with visiting(chromium, url) as visit:
        visit.page.add_init_script(f"sessionStorage.setItem('foreword-key', '{key}')")
        visit.go("chat")
        visit.ask("What does a dog pay?")
        strip = visit.page.locator(".reuse")
        expect(strip).to_be_visible()
        for part in ("gpu", "ram", "ssd", "redis", "computed", "rate"):
            expect(strip.locator(f"[data-part={part}]")).to_have_text("unknown")
        visit.go("report")
        expect(visit.page.locator(".cards dd").first).to_have_text("unknown")


def test_the_report_can_be_saved_as_a_page(visit: Visit, tmp_path: Path) -> None:
    visit.go("chat")
    visit.ask("Hello?")
    expect(visit.page.locator(".reuse")).to_be_visible()
    visit.go("report")
    with visit.page.expect_download() as begun:
        visit.page.get_by_role("button", name="Save as a page").click()
    saved = tmp_path / "report.html"
    begun.value.save_as(saved)
    assert begun.value.suggested_filename.startswith("foreword-report-")
    assert "chat@1" in saved.read_text()
