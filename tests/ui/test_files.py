"""A collection's documents by the page: of one name, dropped beside, not to be read, on a phone."""

from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.ui.conftest import SAMPLES, Visit, visiting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_DROP = """
([name, text, where]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const target = document.querySelector(where);
  return ["dragover", "drop"].map((kind) => {
    const event = new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true});
    target.dispatchEvent(event);
    return event.defaultPrevented;
  });
}
"""


def names(page: Page) -> list[str]:
    return page.locator("tbody th").all_inner_texts()


def fares(text: str) -> FilePayload:
    return {"name": "fares.md", "mimeType": "text/markdown", "buffer": text.encode()}


def test_a_changed_file_takes_the_place_of_the_old_one_unless_asked_otherwise(
    visit: Visit,
) -> None:
    page = visit.page
    visit.make_collection("changing", SAMPLES / "fares.md", SAMPLES / "tickets.txt")
    before = page.get_by_role("row", name="fares.md").locator("[data-column=size]").inner_text()
    page.locator("input[type=file]").set_input_files(fares("# Fares\n\nDogs travel free."))
    dialog = page.get_by_role("dialog", name="Replace fares.md?")
    expect(dialog.get_by_role("button", name="Replace")).to_be_focused()
    page.keyboard.press("Enter")
    size = page.get_by_role("row", name="fares.md").locator("[data-column=size]")
    expect(size).to_have_text("26 B")
    assert before != "26 B"
    assert sorted(names(page)) == ["fares.md", "tickets.txt"]

    page.locator("input[type=file]").set_input_files(fares("# Fares\n\nCats travel free."))
    dialog.get_by_role("button", name="Keep both").click()
    expect(page.get_by_role("row", name="fares.md")).to_have_count(2)
    page.locator("input[type=file]").set_input_files(fares("# Fares\n\nNobody does."))
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).not_to_be_attached()
    assert len(names(page)) == 3


def test_taking_out_is_asked_about_first(visit: Visit) -> None:
    page = visit.page
    visit.make_collection("kept", SAMPLES / "fares.md")
    page.get_by_role("button", name="Take out fares.md").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Keep it").click()
    expect(page.get_by_role("row", name="fares.md")).to_be_visible()
    page.get_by_role("button", name="Take out fares.md").click()
    dialog.get_by_role("button", name="Take out").click()
    expect(page.get_by_role("row", name="fares.md")).not_to_be_attached()


def test_a_file_dropped_beside_the_zone_never_replaces_the_page(visit: Visit) -> None:
    page = visit.page
    visit.make_collection("beside", SAMPLES / "fares.md")
    assert page.evaluate(_DROP, ["pier.txt", "Pier 3 is closed.", "header"]) == [True, True]
    row = page.get_by_role("row", name="pier.txt")
    expect(row.get_by_role("cell", name="ready", exact=True)).to_be_visible()
    visit.go("report")
    assert page.evaluate(_DROP, ["pier.txt", "Pier 3 is closed.", "main"]) == [True, True]
    expect(page.locator("#announced")).to_contain_text("collection's page")


def test_a_picture_is_not_told_to_be_saved_as_text(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    picture = tmp_path / "photo.png"
    picture.write_bytes(b"abc\xff\xfe no picture at all")
    visit.make_collection("pictures", SAMPLES / "fares.md")
    page.locator("input[type=file]").set_input_files(str(picture))
    problem = page.get_by_role("row", name="photo.png").locator(".problem")
    expect(problem).to_contain_text("a picture, which isn't read")
    assert "UTF-8" not in problem.inner_text()
    expect(page.locator(".drop")).to_contain_text("CSV, JSON")


def test_nothing_of_a_table_is_out_of_sight_on_a_phone(visit: Visit, gateway: str) -> None:
    """Neither a column nor what it takes to use a row; and no name is cut in its middle."""
    visit.make_collection("on a phone", SAMPLES / "fares.md", SAMPLES / "tickets.txt")
    place = visit.page.url.rpartition("#/")[2]
    browser = visit.page.context.browser
    assert browser is not None
    with visiting(browser, gateway, phone=True) as phone:
        for where in (place, "collections", "report", "plan"):
            phone.go(where)
            phone.page.wait_for_load_state("networkidle")
            for table in phone.page.locator(".scroll").all():
                assert table.evaluate("e => e.scrollWidth <= e.clientWidth"), where
        phone.go(place)
        for button in phone.page.get_by_role("button", name="Take out").all():
            box = button.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= 360
        phone.go("chat")
        above = phone.page.locator(".talk .empty").bounding_box()
        assert above is not None
        assert above["y"] < 200
