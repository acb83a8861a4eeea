"""A conversation with an agent that fills its share of the window is summed up, and goes on."""

from typing import Any

import pytest

from tests.app.agents.conftest import Harbour, Opens
from tests.app.agents.notes import calls
from tests.app.agents.test_runs import until_ended

AT, KEEP, WINDOW_TOKENS = 0.1, 0.04, 16_384
SCRIPT = tuple(calls(("write", f"line {n}"), ("look", f"at it {n}")) for n in range(4))


@pytest.mark.parametrize("isolated", [False, True])
def test_a_run_whose_conversation_is_summed_up_goes_on_and_tells_the_cost(
    harbour: Opens, isolated: bool
) -> None:
    """Also where its KV is kept under a salt of its own, which the summary's must be, too."""
    options = {"foreword": {"compaction": {"at": AT, "keep": KEEP}, "isolated": isolated}}
    answers: list[Any] = []
    with harbour(SCRIPT) as here:
        talk = here.client.conversations.create(extra_body=options)
        while not answers or "compaction" not in answers[-1].foreword:
            assert len(answers) < 40
            answers.append(ask(here, talk.id, f"Write four lines, for the {len(answers)}th time."))
        before = len(here.lines)
        answers.append(ask(here, talk.id, "And again."))
        summary = here.client.conversations.retrieve(talk.id).foreword["summary"]  # type: ignore[attr-defined]
        items = list(here.client.conversations.items.list(talk.id, order="asc", limit=100))
    *_, compacted, after = answers
    cost = compacted.foreword["compaction"]
    assert summary
    assert cost["tokens_before"] >= AT * WINDOW_TOKENS > cost["tokens_after"]
    assert 0 < cost["prefill_lost"] <= cost["tokens_after"]
    assert cost["summary_tokens"] > 0
    # It goes on from what the engine holds of the runs, tools and calls included.
    assert cost["summary_cached_tokens"] >= 0.75 * cost["summary_prompt_tokens"]
    # All of its steps were made, and only the first of them had anything to compute anew.
    assert compacted.status == after.status == "completed"
    first, *further = compacted.foreword["steps"]
    assert (cost["tokens_after"], first["verdict"] != "hit") == (first["prompt_tokens"], True)
    assert {step["verdict"] for step in [*further, *after.foreword["steps"]]} == {"hit"}
    assert "compaction" not in after.foreword
    assert before > 0
    assert len(items) > len(compacted.output)  # what was said is listed as ever


def test_a_run_that_is_gone_on_with_later_tells_the_cost(harbour: Opens) -> None:
    """As after a crash: it is made anew from what was written down."""
    options = {"foreword": {"compaction": {"at": AT, "keep": KEEP}}}
    with harbour((calls(("write", "vanish")),)) as here:
        talk = here.client.conversations.create(extra_body=options)
        # So long that the next one begins with a summary, and the script anew.
        first = ask(here, talk.id, "Write what the harbour's log of today says. " * 200)
        until_decided(here, first)
        second = ask(here, talk.id, "And again.")
        final = until_decided(here, second)
    assert "compaction" not in first.foreword
    assert (second.status, final["status"]) == ("in_progress", "completed")
    assert final["foreword"]["compaction"] == second.foreword["compaction"]


def until_decided(here: Harbour, answer: Any) -> dict[str, Any]:
    [waiting] = answer.foreword["agent"]["waiting"]
    decision = {"call_id": waiting["call_id"], "action": "skip", "output": "It is written."}
    path = f"/foreword/agents/runs/{answer.id}/decide"
    here.http.post(path, json=decision).raise_for_status()
    return until_ended(here, answer.id)


def ask(here: Any, talk: str, text: str) -> Any:
    return here.client.responses.create(model="agent:writer", input=text, conversation=talk)
