"""What is mirrored, under which salt, and what is told of it."""

import json
from pathlib import Path

import httpx
import openai
import pytest

from bench.engine_sim import SimulatorThread
from tests.app.shadow.conftest import (
    TEXT,
    Site,
    chats,
    mirroring,
    raw_target,
    until,
)
from tests.gateways import gateway_settings, running_gateway, wait_until_ready


@pytest.mark.parametrize("stream", [False, True])
def test_whole_conversations_are_mirrored_and_compared(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path, stream: bool
) -> None:
    """Two equal engines: equal answers, equal re-use."""
    with mirroring(tmp_path, live, second.url) as site:
        if stream:
            with openai.OpenAI(base_url=f"{site.url}/v1", api_key="x", max_retries=0) as client:
                for number in range(3):
                    parts = client.chat.completions.create(
                        model="default",
                        messages=[{"role": "user", "content": f"{number} {TEXT}"}],
                        max_tokens=6,
                        temperature=0,
                        stream=True,
                    )
                    assert list(parts)
            told = site.settled(3, compared=3, failed=0, dropped=0)
            assert told["ttft"]["pairs"] == told["conversations"] == 3
            low, high = told["ttft"]["ratio_interval"]
            assert 0 < low <= told["ttft"]["ratio"] <= high
        else:
            for number in range(2):
                site.converse(f"{number} {TEXT}")
            told = site.settled(6, compared=6, failed=0, dropped=0)
            assert told["ttft"] is None  # whole answers have none
            assert told["conversations"] == 2
            assert told["hit_rate"]["pairs"] == 6
            assert told["hit_rate"]["live"] == told["hit_rate"]["shadow"] > 0.3
            assert told["hit_rate"]["difference_interval"] == [0, 0]
        assert told["answers"]["equal_share"] == told["answers"]["common_share"] == 1
        assert told["e2e"]["pairs"] == told["compared"]
        assert told["enabled"] is True
        assert told["errors"] == {}


def test_copies_are_salted_apart_on_the_very_same_engine(
    live: SimulatorThread, tmp_path: Path
) -> None:
    """What was computed for a copy serves no tenant, and the other way round."""
    with mirroring(tmp_path, live, live.url) as site:
        first = site.ask(TEXT)["foreword"]
        told = site.settled(1, compared=1)
        assert first["cached_tokens"] == 0
        # All of the prompt had been computed for the client; the copy found none of it.
        assert told["hit_rate"]["shadow"] == 0
        again = site.ask(TEXT)["foreword"]
        told = site.settled(2, compared=2)
        assert again["cached_tokens"] > 0.8 * again["prompt_tokens"]
        assert told["hit_rate"]["live"] == told["hit_rate"]["shadow"] > 0.3


def test_the_live_engine_is_as_it_would_be_without(
    live: SimulatorThread, second: SimulatorThread, tokenizer_folder: Path, tmp_path: Path
) -> None:
    """The same conversation, with and without a shadow: the same re-use, and no request more."""
    with mirroring(tmp_path / "with", live, second.url) as site:
        before = chats(live)
        mirrored = site.converse(TEXT)
        site.settled(3)
        assert chats(live) - before == 3
    with (
        SimulatorThread(live.config) as alone,
        running_gateway(gateway_settings(tmp_path / "without", alone.url)) as url,
    ):
        wait_until_ready(url)
        plain = Site(url=url).converse(TEXT)
    figures = ("prompt_tokens", "cached_tokens", "ideal_tokens", "verdict")
    assert [[block[f] for f in figures] for block in mirrored] == [
        [block[f] for f in figures] for block in plain
    ]


def test_a_share_of_conversations_is_drawn_and_all_of_their_turns(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    with mirroring(tmp_path, live, second.url, fraction=0.5) as site:
        for number in range(24):
            site.converse(f"{number}: a conversation", turns=2)
        until(lambda: not site.shadow()["since_start"]["waiting"])
        told = site.settled(site.shadow()["requests"])
        rows = rows_of(tmp_path, told["requests"])
        assert 4 <= told["conversations"] <= 20
        assert told["requests"] == 2 * told["conversations"]
        assert all(row["whole"] for row in rows)


def rows_of(home: Path, count: int) -> list[dict[str, object]]:
    path = home / "shadow" / "rows.jsonl"
    until(lambda: path.exists() and len(path.read_bytes().splitlines()) >= count)
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_only_the_named_tenants_and_templates_are_mirrored(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    with mirroring(tmp_path / "a", live, second.url, tenants=["acme"]) as site:
        site.ask(TEXT)
        assert site.shadow()["since_start"]["waiting"] == 0
    with mirroring(tmp_path / "b", live, second.url, templates=["docqa"]) as site:
        site.ask(TEXT)
        assert site.shadow()["since_start"]["waiting"] == 0
    assert not (tmp_path / "a" / "shadow").exists()
    assert not (tmp_path / "b" / "shadow").exists()
    with mirroring(tmp_path / "c", live, second.url, templates=["chat"], tenants=["local"]) as site:
        site.ask(TEXT)
        assert site.settled(1)["compared"] == 1
        assert site.shadow(template="chat")["requests"] == 1
        assert site.shadow(template="docqa")["requests"] == 0
        assert site.shadow(tenant="acme")["requests"] == 0
        assert site.shadow(since="1h")["requests"] == 1


def test_what_is_kept_and_told_holds_no_text(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    with mirroring(tmp_path, live, second.url) as site:
        answer = site.ask("zanzibar " * 20)["choices"][0]["message"]["content"]
        told = site.settled(1)
        metrics = httpx.get(f"{site.url}/metrics", trust_env=False).text
    kept = b"".join(path.read_bytes() for path in (tmp_path / "shadow").iterdir())
    for text in (kept.decode(), json.dumps(told), metrics):
        assert "zanzibar" not in text
        assert answer not in text
    assert 'foreword_shadow_requests_total{outcome="compared"} 1' in metrics
    assert 'foreword_shadow_answers_total{equal="yes"} 1' in metrics
    assert "foreword_shadow_queue_depth 0" in metrics


def test_a_copy_is_marked_and_a_marked_request_is_not_copied_again(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    """Two gateways that shadow each other don't go round in circles."""
    with mirroring(tmp_path / "b", second, "http://127.0.0.1:9") as behind:
        settings = {"form": "messages", "model": "default"}
        with mirroring(tmp_path / "a", live, f"{behind.url}/v1", **settings) as site:
            site.ask(TEXT)
            site.settled(1, compared=1)
            assert behind.shadow()["requests"] == 0
            assert behind.shadow()["since_start"]["failed"] == 0
            site.ask(TEXT, headers={"x-foreword-shadow": "no"})
            assert site.shadow()["since_start"]["compared"] == 1


def test_other_endpoints_get_messages_a_key_and_a_salt_where_they_take_one(
    live: SimulatorThread, tmp_path: Path
) -> None:
    with raw_target(lambda: iter([b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n"])) as target:
        chosen = {"form": "messages", "model": "m-1", "api_key": "s3cret", "salt_field": "user"}
        with mirroring(tmp_path, live, f"{target.url}/v1", **chosen) as site:
            site.ask(TEXT, stop=["|"])
            told = site.settled(1, failed=1)
    assert told["errors"] == {"refused": 1}
    assert "s3cret" not in json.dumps(told)
    [request] = target.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"authorization: Bearer s3cret" in head
    assert b"x-foreword-shadow: 1" in head
    sent = json.loads(body)
    assert set(sent) == {
        "model", "messages", "max_tokens", "stream", "temperature", "stop", "user"
    }  # fmt: skip
    assert sent["model"] == "m-1"
    assert sent["messages"][-1] == {"role": "user", "content": TEXT}


def test_the_figures_outlive_the_gateway_and_are_of_one_target(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    with mirroring(tmp_path, live, second.url) as site:
        site.ask(TEXT)
        site.settled(1)
    with mirroring(tmp_path, live, second.url) as site:
        told = site.shadow()
        assert told["requests"] == 1
        assert told["since_start"]["compared"] == 0
    with mirroring(tmp_path, live, live.url) as site:
        assert site.shadow()["requests"] == 0


def test_without_a_target_there_is_nothing(
    gateway: str,
) -> None:
    told = httpx.get(f"{gateway}/foreword/shadow", trust_env=False).json()
    assert told["enabled"] is False
    assert told["requests"] == 0
    assert told["ttft"] is told["hit_rate"] is told["answers"] is None


def test_several_copies_of_an_answer_are_left_out(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    with mirroring(tmp_path, live, second.url) as site:
        site.ask(TEXT, n=2)
        until(lambda: site.shadow()["since_start"]["left_out"] == 1)


def test_answers_that_were_drawn_are_not_compared(
    live: SimulatorThread, second: SimulatorThread, tmp_path: Path
) -> None:
    with mirroring(tmp_path, live, second.url) as site:
        site.ask(TEXT, temperature=0.7)
        told = site.settled(1, compared=1)
        assert told["answers"] is None
        assert told["hit_rate"]["pairs"] == 1
