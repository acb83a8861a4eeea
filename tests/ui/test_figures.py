"""Figures of the report and the plan add up, and say what they are of."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.ui.conftest import SAMPLES, Visit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_parts_of_the_prompt_tokens_add_up_and_each_has_a_name(visit: Visit, gateway: str) -> None:
    """One request's tokens are told without their tier: a client may send its own bytes through."""
    page = visit.page
    visit.go("chat")
    visit.ask("What adds up?", tokens=20)
    expect(page.locator(".reuse")).to_be_visible()
    visit.go("report")
    figures = page.locator('section[aria-labelledby="where"] dl.figures dd')
    expect(figures.first).to_be_visible()
    told = [text.split() for text in figures.all_inner_texts()]
    tokens = sum(int(words[0].replace(",", "")) for words in told if words[0] != "unknown")
    report = httpx.get(f"{gateway}/foreword/report?since=24h", trust_env=False).json()
    assert tokens == report["total"]["prompt_tokens"]["tokens"]
    pieces = page.locator('section[aria-labelledby="where"] .bar .fill').count()
    named = sum(words[0] not in ("0", "unknown") for words in told)
    assert pieces == named
    expect(page.locator("#trust + ul li").first).to_contain_text("engine's own counters")
    differ = page.locator("#trust + ul li").first.inner_text()
    assert re.search(r"say the same|re-used tokens? (more|fewer) than|weren't compared", differ)


def test_the_flame_and_the_cards_say_the_same_of_all_prompts(visit: Visit, gateway: str) -> None:
    """Prompts shorter than a page are a part of the root, not all of it."""
    page = visit.page
    with httpx.Client(base_url=gateway, trust_env=False, timeout=60) as client:
        for text in (
            "Hi",
            "the same long opening of a prompt " * 40,
            "the same long opening of a prompt " * 40,
        ):
            body = {"model": "default", "prompt": text, "max_tokens": 1}
            client.post("/v1/completions", json=body).raise_for_status()
        flame = client.get("/foreword/report?since=24h").json()["flame"]
    cached = known = 0
    waiting = [flame]
    while waiting:
        node = waiting.pop()
        cached, known = cached + (node["cached_tokens"] or 0), known + node["known_tokens"]
        waiting += node["children"]
    assert flame["served_tokens"] > 0, "the root has tokens of its own"
    assert cached > 0
    visit.go("report")
    expect(page.locator(".flame [role=status]")).to_contain_text(
        f"re-used {round(100 * cached / known)} %"
    )
    page.get_by_text("The same as a table").click()
    first = page.get_by_role("row", name="all prompts")
    expect(first.locator("[data-column='re-used']")).to_have_text(
        f"{round(100 * cached / known)} %"
    )


def test_the_plan_says_what_was_asked_for_and_what_cost_alone_would_take(
    visit: Visit, gateway: str
) -> None:
    page = visit.page
    visit.make_collection("planned", SAMPLES / "fares.md")
    place = page.url.rpartition("/")[2]
    body = {
        "model": "default", "input": "What does a dog pay?", "max_output_tokens": 5,
        "tools": [{"type": "file_search", "vector_store_ids": [place]}],
        "foreword": {"mode": "rag"},
    }  # fmt: skip
    httpx.post(f"{gateway}/v1/responses", json=body, trust_env=False, timeout=60).raise_for_status()
    visit.go(f"plan?collection={place}")
    mode = page.locator(".mode")
    expect(mode).to_contain_text("went to RAG: the request asks for it")
    expect(mode).to_contain_text("By cost alone it would be")
    expect(mode).to_contain_text("A question of 32 tokens would cost")
    plan = httpx.get(f"{gateway}/foreword/plan?collection={place}", trust_env=False).json()
    (row,) = [row for row in plan["modes"] if row["collection_id"] == place]
    costs = row["costs"]
    assert costs["rag"]["prompt_tokens"] <= costs["cag"]["prompt_tokens"]
