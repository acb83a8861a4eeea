"""Several replicas behind one gateway: who answers, and what becomes of those that fail."""

from pathlib import Path

import httpx
import pytest

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.app.fleet.conftest import QUESTION, Site, site, until


def test_a_prompt_goes_where_its_opening_is(pair: Site) -> None:
    first = pair.ask()
    again = [pair.ask(f"{QUESTION} Number {n}?") for n in range(4)]
    assert {block["replica"] for block in again} == {first["replica"]}
    assert all(block["verdict"] == "hit" for block in again)
    assert "holds" in again[0]["route_reason"]


def test_what_another_replica_had_is_said_to_have_moved(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    with site(tokenizer_folder, tmp_path, policy="round-robin") as pair:
        first, second, third = pair.ask(), pair.ask(), pair.ask()
        assert first["replica"] == third["replica"] != second["replica"]
        assert second["verdict"] == "moved"
        assert (third["verdict"], third["cached_tokens"]) == ("hit", third["ideal_tokens"])


@pytest.mark.parametrize("stream", [False, True])
def test_one_that_breaks_off_before_its_answer_began_is_replaced(
    pair: Site, *, stream: bool
) -> None:
    home = pair.ask()["replica"]
    # A kept connection that is dead may be the client's own fault: it tries once more by itself.
    pair.fault(int(home[-1]), kind="drop", path="/v1/chat/completions", times=2)
    answer = pair.post(stream=stream)
    assert answer.status_code == 200
    told = pair.explain(answer.headers["x-request-id"])
    assert told["status"] == "ok"
    assert told["replica"] != home
    assert told["route_reason"].startswith(f"{home} didn't take it")


def test_one_that_says_that_it_is_not_ready_is_replaced(pair: Site) -> None:
    home = pair.ask()["replica"]
    pair.fault(int(home[-1]), kind="error", path="/v1/chat/completions", status=503, times=1)
    assert pair.ask()["replica"] != home


def test_a_request_is_sent_again_once_at_most(pair: Site) -> None:
    for number in (0, 1):
        pair.fault(number, kind="error", path="/v1/chat/completions", status=503, times=1)
    assert pair.post().status_code == 502
    assert pair.post().status_code == 200


@pytest.mark.parametrize("status", [400, 500])
def test_what_the_engine_answered_is_an_answer(pair: Site, status: int) -> None:
    home = pair.ask()["replica"]
    pair.fault(int(home[-1]), kind="error", path="/v1/chat/completions", status=status, times=1)
    assert pair.post().status_code in (400, 502)


def test_an_answer_that_has_begun_is_never_begun_again(pair: Site) -> None:
    home = pair.ask()["replica"]
    pair.fault(int(home[-1]), kind="drop", path="/v1/chat/completions", times=1, after_chunks=2)
    answer = pair.post(stream=True, max_tokens=64, ignore_eos=True)
    assert "engine_unreachable" in answer.text
    assert "127.0.0.1" not in answer.text
    assert answer.text.count('"role":"assistant"') == 1
    told = pair.explain(answer.headers["x-request-id"])
    assert (told["status"], told["replica"]) == ("error", home)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_what_waits_at_a_replica_that_hangs_goes_elsewhere(
    tokenizer_folder: Path, tmp_path: Path, *, stream: bool
) -> None:
    with site(tokenizer_folder, tmp_path, silent_s=5) as pair:
        home = pair.ask()["replica"]
        for path in ("/v1/chat/completions", "/ready"):
            pair.fault(int(home[-1]), kind="hang", path=path, times=None)
        answer = pair.post(stream=stream)
        told = pair.explain(answer.headers["x-request-id"])

    assert (answer.status_code, told["status"]) == (200, "ok")
    assert told["replica"] != home
    assert "it has answered nothing for" in told["route_reason"]


@pytest.mark.slow
def test_a_slow_answer_of_a_replica_that_lives_is_waited_for(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    with site(tokenizer_folder, tmp_path, silent_s=5) as pair:
        home = pair.ask()["replica"]
        slow = {"kind": "delay", "path": "/v1/chat/completions", "seconds": 8, "times": 1}
        pair.fault(int(home[-1]), **slow)
        assert pair.ask()["replica"] == home


@pytest.mark.slow
def test_one_that_was_started_anew_is_met_warmed_and_begins_cold(pair: Site) -> None:
    home = pair.ask()["replica"]
    number = int(home[-1])
    pair.engines[number].stop()
    until(lambda: pair.state(number) == "away")
    assert f"{home}: " in pair.ready()["reasons"][0]
    elsewhere = pair.ask()
    assert elsewhere["replica"] != home
    pair.engines[number].start()
    until(lambda: pair.state(number) == "ready")
    # Its copy is gone: what the other one holds now decides.
    assert pair.ask()["replica"] == elsewhere["replica"]
    assert pair.engines[number].engine.scheduler.totals.prefill_tokens > 0


def test_a_cordoned_replica_gets_no_new_requests_and_keeps_its_cache(pair: Site) -> None:
    home = pair.ask()["replica"]
    pair.operate("POST", f"{home}/cordon").raise_for_status()
    assert pair.ask()["replica"] != home
    assert pair.state(int(home[-1])) == "cordoned"
    pair.operate("POST", f"{home}/uncordon").raise_for_status()
    assert pair.state(int(home[-1])) == "ready"


def test_a_drained_replica_ends_its_requests_and_is_forgotten(pair: Site) -> None:
    home = pair.ask()["replica"]
    pair.operate("POST", f"{home}/drain").raise_for_status()
    until(lambda: pair.state_of(home) == "gone")
    assert pair.ask()["replica"] != home
    assert pair.operate("POST", f"{home}/cordon").status_code == 404


def test_with_no_replica_left_requests_are_refused_at_once(pair: Site) -> None:
    for number in (0, 1):
        pair.operate("POST", f"engine-{number}/cordon").raise_for_status()
    answer = pair.post()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_not_ready")


def test_one_that_serves_something_else_is_left_out(tokenizer_folder: Path, tmp_path: Path) -> None:
    other = SimulatorConfig(
        model_path=tokenizer_folder, page_size=32, clock=ClockConfig(speedup=20)
    )
    with site(tokenizer_folder, tmp_path, replicas=1) as lone, SimulatorThread(other) as odd:
        added = httpx.post(
            f"{lone.url}/foreword/replicas", json={"url": odd.url, "name": "odd"}, trust_env=False
        )
        assert added.status_code == 201
        until(lambda: lone.state_of("odd") == "refused")
        assert any("odd: its page size is 32" in reason for reason in lone.ready()["reasons"])
        assert {lone.ask()["replica"] for _ in range(3)} == {"engine-0"}


def test_the_report_counts_what_all_engines_counted(pair: Site) -> None:
    for number in range(6):
        pair.ask(f"{QUESTION} Number {number % 2}?")
    told = httpx.get(f"{pair.url}/foreword/report", trust_env=False).json()["cross_check"]
    assert told["difference_tokens"] == 0
