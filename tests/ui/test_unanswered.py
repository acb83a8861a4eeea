"""Questions without an answer yet: none is lost, and none is shown in another conversation."""

import httpx
import pytest
from playwright.sync_api import expect

from bench.engine_sim import SimulatorThread
from tests.ui.conftest import Visit, break_off_next

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LONG = 7000


def begin(visit: Visit, question: str, *, tokens: int = LONG) -> None:
    """Asks in a new conversation and waits until its answer comes."""
    visit.go("chat")
    visit.page.get_by_role("link", name="New conversation", exact=True).click()
    visit.ask(question, tokens=tokens)
    expect(visit.page.locator("li.turn .markdown")).to_contain_text("Dogs pay half")


@pytest.mark.parametrize("way_out", ["New conversation", "Foreword"])
def test_an_answer_goes_on_while_another_conversation_is_looked_at(
    visit: Visit, way_out: str
) -> None:
    page = visit.page
    question = f"Tell all of it to number {len(way_out)}."
    begin(visit, question)
    page.get_by_role("link", name=way_out, exact=True).click()
    expect(page.locator("li.turn")).to_have_count(0)
    expect(page.get_by_label("Your question")).to_have_value("")
    entry = page.get_by_role("link", name=question).first
    expect(entry).to_contain_text("is being answered")
    visit.ask("Something else", tokens=20)
    expect(page.locator(".reuse")).to_be_visible()
    expect(page.locator("li.turn .question")).to_contain_text("Something else")

    entry.click()
    expect(page.locator("li.turn .question")).to_contain_text(question)
    expect(page.locator("li.turn")).to_have_attribute("data-state", "streaming")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("You stopped this answer")).to_be_visible()
    expect(page.get_by_label("Your question")).to_have_value(question)
    page.get_by_role("link", name="Something else").first.click()
    expect(page.get_by_label("Your question")).to_have_value("")


def test_a_page_that_was_left_in_the_middle_has_the_question_again(visit: Visit) -> None:
    page = visit.page
    begin(visit, "What was lost?")
    page.reload()
    expect(page.get_by_text("This question has no answer")).to_be_visible()
    expect(page.get_by_label("Your question")).to_have_value("What was lost?")
    expect(page.get_by_text("Nothing is kept of this conversation yet")).to_be_visible()
    page.get_by_role("link", name="New conversation", exact=True).click()
    expect(page.get_by_label("Your question")).to_have_value("")
    page.go_back()
    page.get_by_label("Tokens at most").fill("20")
    page.get_by_label("Your question").press("Enter")
    expect(page.locator(".reuse")).to_be_visible()
    page.reload()
    expect(page.locator(".reuse")).to_be_visible()
    expect(page.get_by_label("Your question")).to_have_value("")
    expect(page.get_by_text("This question has no answer")).not_to_be_attached()


def test_what_is_written_stays_with_its_conversation(visit: Visit) -> None:
    page = visit.page
    begin(visit, "The first of two", tokens=20)
    expect(page.locator(".reuse")).to_be_visible()
    page.get_by_label("Your question").fill("A thought that is half")
    page.get_by_role("link", name="New conversation", exact=True).click()
    expect(page.get_by_label("Your question")).to_have_value("")
    page.get_by_role("link", name="The first of two").first.click()
    expect(page.get_by_label("Your question")).to_have_value("A thought that is half")


def test_a_failed_question_is_not_put_into_another_conversation(
    visit: Visit, engine: SimulatorThread
) -> None:
    page = visit.page
    visit.go("chat")
    break_off_next(engine)
    visit.ask("What fails?", tokens=LONG)
    expect(page.locator("li.turn").get_by_role("alert")).to_be_visible()
    page.get_by_role("link", name="New conversation", exact=True).click()
    expect(page.get_by_label("Your question")).to_have_value("")
    page.get_by_role("link", name="What fails?").first.click()
    expect(page.locator("li.turn").get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Your question")).to_have_value("What fails?")


def test_a_conversation_that_is_not_there_says_so_in_words(visit: Visit) -> None:
    """Whatever stands in the address, no program's words, and nothing to send it into."""
    for place in ("chat/conv_none", "chat/%E0%A4%A"):
        visit.go(place)
        expect(visit.page.get_by_text("This conversation isn't there")).to_be_visible()
        expect(visit.page.get_by_label("Your question")).to_have_count(0)
        assert "GET /" not in visit.page.locator("main").inner_text()


def test_conversations_of_programs_are_told_apart(visit: Visit, gateway: str) -> None:
    """They have no title: their date, and once they were opened their first question."""
    body = {"model": "default", "input": "What does a program ask?", "max_output_tokens": 5}
    with httpx.Client(base_url=gateway, trust_env=False, timeout=60) as client:
        made = client.post("/v1/conversations", json={}).json()
        client.post("/v1/responses", json={**body, "conversation": made["id"]}).raise_for_status()
    visit.go("chat")
    entry = visit.page.locator(f'.talks a[href="#/chat/{made["id"]}"]')
    expect(entry).to_contain_text("Of ")
    expect(visit.page.get_by_text("Untitled")).to_have_count(0)
    entry.click()
    expect(entry).to_contain_text("What does a program ask?")


def test_a_limit_that_is_not_used_is_not_shown(visit: Visit) -> None:
    limit = visit.page.get_by_label("Tokens at most")
    visit.go("chat")
    limit.fill("77")
    limit.fill("-5")
    visit.page.get_by_label("Your question").focus()
    expect(limit).to_have_value("77")


def test_an_empty_chat_is_as_high_as_the_window(visit: Visit, gateway: str) -> None:
    """Also beside a long list, whose longest titles are cut after two whole lines."""
    with httpx.Client(base_url=gateway, trust_env=False, timeout=60) as client:
        for _ in range(30):
            metadata = {"title": "A title of many words that has no room " * 4}
            client.post("/v1/conversations", json={"metadata": metadata}).raise_for_status()
    page = visit.page
    visit.go("chat")
    expect(page.locator(".talks li").nth(29)).to_be_attached()
    assert page.evaluate("document.documentElement.scrollHeight - innerHeight") == 0
    lines = page.locator(".talks .two-lines").first.evaluate(
        "e => e.clientHeight / parseFloat(getComputedStyle(e).lineHeight)"
    )
    assert lines == pytest.approx(2, abs=0.1)
