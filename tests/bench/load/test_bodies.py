"""Bodies: what the workload has, and what the target wants."""

import orjson

from bench.load.bodies import Bodies
from bench.workloads import answer_of
from bench.workloads.file import asked

BODIES = Bodies(model="m", extra={"temperature": 0}, ignore_eos=True, limit="max_completion_tokens")
QUESTION = {"role": "user", "content": "Größe?"}


def test_a_body_is_the_workloads_own_bytes_and_the_runs_fields() -> None:
    request = asked({"messages": [QUESTION], "tools": []}, id="a", max_tokens=7)
    made = BODIES.body(request, {})
    assert bytes(request.body)[1:] in made
    assert orjson.loads(made) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
        "temperature": 0,
        "max_completion_tokens": 7,
        "messages": [QUESTION],
        "tools": [],
    }


def test_answers_stand_in_their_places() -> None:
    request = asked({"messages": [QUESTION, answer_of("a")]}, id="b", max_tokens=7)
    made = orjson.loads(BODIES.body(request, {"a": "Two metres."}))
    assert made["messages"] == [QUESTION, {"role": "assistant", "content": "Two metres."}]
    assert made["model"] == "m"
