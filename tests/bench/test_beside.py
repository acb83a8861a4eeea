"""Live traffic beside a batch: its requests, its clock, its page."""

import json

from bench.beside.page import p99, page, ratio
from bench.beside.run import clocked
from bench.beside.workload import SPLIT_TOKENS, Shape, batch_file, live_requests, texts, warm_bodies
from bench.routing.replicas import Answered

TEXT = texts(4.0)


def test_windows_of_one_seed_have_the_same_arrivals_and_words_of_their_own() -> None:
    one, other = (
        live_requests(Shape(), seconds=60, seed=3, nonce=nonce, text=TEXT) for nonce in ("a", "b")
    )
    assert [each.at_s for each in one] == [each.at_s for each in other]
    assert [len(each.body) for each in one] == [len(each.body) for each in other]
    assert all(mine.body != theirs.body for mine, theirs in zip(one, other, strict=True))
    again = live_requests(Shape(), seconds=60, seed=3, nonce="a", text=TEXT)
    assert again == one


def test_most_live_requests_go_on_with_what_was_warmed() -> None:
    warm = {json.loads(body)["messages"][0]["content"] for body in warm_bodies(Shape(), TEXT)}
    live = live_requests(Shape(), seconds=600, seed=1, nonce="a", text=TEXT)
    known = [json.loads(each.body)["messages"][0]["content"] in warm for each in live]
    assert len(warm) == Shape().live_prefixes
    assert 0.7 < sum(known) / len(known) < 0.9


def test_the_batch_shares_its_prefixes_and_names_each_line_once() -> None:
    lines = [json.loads(line) for line in batch_file(Shape(), seed=1, text=TEXT).splitlines()]
    systems = {line["body"]["messages"][0]["content"] for line in lines}
    assert (len(lines), len(systems)) == (Shape().lines, Shape().batch_prefixes)
    assert len({line["custom_id"] for line in lines}) == Shape().lines
    assert len({line["body"]["messages"][1]["content"] for line in lines}) == Shape().lines


def test_the_engine_computes_one_after_the_other() -> None:
    long, short = SPLIT_TOKENS + 100, 200
    came = [
        Answered(submitted_at=0.0, prompt_tokens=long, cached_tokens=0),
        Answered(submitted_at=1.0, prompt_tokens=short, cached_tokens=100),
        Answered(submitted_at=9.0, prompt_tokens=short, cached_tokens=0),
    ]
    found = [(is_live, round(s, 6)) for is_live, s in clocked(came, 1000.0)]
    assert found == [(False, 2.0), (True, 1.1), (True, 0.2)]


def test_the_page_says_whether_the_goal_was_kept() -> None:
    def window(beside: int, slowest: float) -> dict[str, object]:
        times = [0.1] * 98 + [slowest, slowest]
        return {
            "round": 0, "beside": beside, "requests": 100, "failed": 0, "lines": beside * 50,
            "ttft_s": times, "client_ttft_s": times, "answered": [],
        }  # fmt: skip

    result = {
        "plan": {
            "rounds": 1, "seconds": 60, "prefill_tokens_per_s": 3000.0, "pool_tokens": 48_000,
            "arms": [0, 1, 8],
        },
        "shape": {
            "rate": 1.0, "cold_share": 0.2, "live_prefixes": 10, "live_prefix_tokens": 1000,
            "live_new_tokens": 200, "cold_tokens": 1500, "lines": 1000, "batch_prefixes": 20,
            "batch_prefix_tokens": 2000,
        },
        "environment": {"commit": "c", "python": "3", "cores": 2, "load_average": [1.0]},
        "windows": [window(0, 0.5), window(1, 0.55), window(8, 1.0)],
    }  # fmt: skip
    assert p99([0.1] * 98 + [0.5, 0.5]) == 0.5
    assert round(ratio(result, 8), 2) == 2.0
    text = page(result)
    assert "1.10, kept" in text
    assert "| 8 | 100 | 0.100 | 1.000 | 2.00 |" in text
