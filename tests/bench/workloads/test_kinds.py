"""Each kind of workload: what it shares, what it doesn't, and how long it is."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.errors import WorkloadError
from bench.soak.model_folder import write_model_folder
from bench.traces import TraceRequest
from bench.workloads import Vocabulary, english_words, token_words
from bench.workloads.agents import AgentLoops, agent_loops, recorded_loops
from bench.workloads.documents import (
    DocumentQuestions,
    Layout,
    document_questions,
    made_documents,
)
from bench.workloads.file import WorkloadRequest
from bench.workloads.prefix_repetition import PrefixRepetition, prefix_repetition
from bench.workloads.shared_prefix import SharedPrefix, shared_prefix
from bench.workloads.sharegpt import Conversations, sharegpt
from bench.workloads.trace import TraceScale, lay_arrivals, trace_requests

WORDS = english_words()


def body(request: WorkloadRequest) -> dict[str, Any]:
    held: dict[str, Any] = orjson.loads(bytes(request.body))
    return held


def texts(requests: Sequence[WorkloadRequest]) -> list[str]:
    return ["\n".join(m["content"] for m in body(r)["messages"]) for r in requests]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return token_words(write_model_folder(tmp_path_factory.mktemp("model")))


def test_lengths_are_in_tokens_where_a_tokenizer_is_given(vocabulary: Vocabulary) -> None:
    spec = PrefixRepetition(prefix_len=40, suffix_len=9, num_prompts=20)
    for text in texts(list(prefix_repetition(spec, vocabulary, 1))):
        assert vocabulary.count(text) == 49


def test_equally_popular_prefixes_come_equally_often() -> None:
    spec = PrefixRepetition(prefix_len=30, suffix_len=5, num_prefixes=4, num_prompts=40)
    counts = Counter(
        " ".join(t.split()[:30]) for t in texts(list(prefix_repetition(spec, WORDS, 1)))
    )
    assert sorted(counts.values()) == [10, 10, 10, 10]


def test_a_skew_makes_the_first_prefix_the_most_popular() -> None:
    spec = PrefixRepetition(num_prefixes=8, num_prompts=400, skew=1.2, prefix_len=1, suffix_len=1)
    counts = Counter(r.labels["prefix"] for r in prefix_repetition(spec, WORDS, 1))
    assert counts.most_common(1)[0][0] == "0"
    assert counts["0"] > 3 * counts["7"]


def test_the_control_shares_nothing() -> None:
    spec = PrefixRepetition(prefix_len=30, suffix_len=5, num_prompts=50, unique=True)
    openings = {" ".join(t.split()[:8]) for t in texts(list(prefix_repetition(spec, WORDS, 1)))}
    assert len(openings) == 50


def test_a_system_prompt_holds_the_prefix_alone() -> None:
    spec = PrefixRepetition(prefix_len=30, suffix_len=5, num_prompts=1, role="system")
    messages = body(next(prefix_repetition(spec, WORDS, 1)))["messages"]
    assert [m["role"] for m in messages] == ["system", "user"]
    assert [len(m["content"].split()) for m in messages] == [30, 5]


def test_groups_share_their_system_prompt() -> None:
    spec = SharedPrefix(num_groups=3, prompts_per_group=5, system_prompt_len=20, question_len=6)
    made = list(shared_prefix(spec, WORDS, 1))
    openings = {
        (r.labels["group"], text.split("\n\n")[0])
        for r, text in zip(made, texts(made), strict=True)
    }
    assert len(made) == 15
    assert len(openings) == 3


def test_turns_follow_the_real_answers() -> None:
    spec = SharedPrefix(num_groups=1, prompts_per_group=1, num_turns=3, system_prompt_len=5)
    made = list(shared_prefix(spec, WORDS, 1))
    assert [(r.session, r.turn) for r in made] == [("gsp-0", 0), ("gsp-0", 1), ("gsp-0", 2)]
    contents = [m["content"] for m in body(made[2])["messages"]]
    assert contents[1] == {"answer_of": "gsp-0-0"}
    assert contents[3] == {"answer_of": "gsp-0-1"}


def test_lengths_lie_within_the_range_ratio() -> None:
    spec = SharedPrefix(num_groups=5, prompts_per_group=4, output_len=100, range_ratio=0.5)
    lengths = {r.max_tokens for r in shared_prefix(spec, WORDS, 1)}
    assert min(lengths) >= 50
    assert max(lengths) <= 100
    assert len(lengths) > 5


ROWS = [
    {
        "conversations": [
            {"from": "human", "value": "Who?"},
            {"from": "gpt", "value": "It was me."},
            {"from": "human", "value": "Why?"},
            {"from": "gpt", "value": "No idea at all."},
            {"from": "human", "value": "never answered"},
        ]
    }
]


def test_a_conversation_is_as_long_as_its_answers() -> None:
    made = list(sharegpt(ROWS, Conversations(), WORDS, 1))
    assert [r.max_tokens for r in made] == [3, 4]
    contents = [m["content"] for m in body(made[1])["messages"]]
    assert contents == ["Who?", {"answer_of": "chat-0-0"}, "Why?"]


def test_recorded_answers_stand_where_they_are_asked_for() -> None:
    made = list(sharegpt(ROWS, Conversations(recorded=True), WORDS, 1))
    assert body(made[1])["messages"][1] == {"role": "assistant", "content": "It was me."}


@pytest.mark.parametrize("row", [7, {}, {"conversations": [{"from": "nobody", "value": ""}]}])
def test_what_is_no_conversation_is_named(row: object) -> None:
    with pytest.raises(WorkloadError, match="conversation 0"):
        list(sharegpt([row], Conversations(), WORDS, 1))


DOCUMENTS = made_documents(5, 50, WORDS, 1)


def test_layouts_ask_the_same_about_the_same() -> None:
    layouts = [
        DocumentQuestions(questions=10, layout=Layout.SCAFFOLD_FIRST),
        DocumentQuestions(questions=10, layout=Layout.USER_FIRST, clock=True),
    ]
    first, second = (list(document_questions(DOCUMENTS, spec, 1)) for spec in layouts)
    assert [r.labels for r in first] == [r.labels for r in second]
    for good, bad in zip(first, second, strict=True):
        question = body(good)["messages"][1]["content"]
        assert question in body(bad)["messages"][0]["content"]


def test_documents_come_before_the_question_and_the_clock_before_all() -> None:
    spec = DocumentQuestions(questions=1, clock=True)
    system, user = body(next(document_questions(DOCUMENTS, spec, 1)))["messages"]
    assert system["content"].startswith("The time is 09:00:00.")
    assert "Document document-" in system["content"]
    assert user["content"].startswith("What does it say")


def test_shuffled_documents_are_the_same_documents() -> None:
    stable = DocumentQuestions(questions=20, documents_per_question=3)
    shuffled = DocumentQuestions(questions=20, documents_per_question=3, shuffled=True)
    pairs = list(
        zip(
            texts(list(document_questions(DOCUMENTS, stable, 1))),
            texts(list(document_questions(DOCUMENTS, shuffled, 1))),
            strict=True,
        )
    )
    assert all(sorted(a) == sorted(b) for a, b in pairs)
    assert any(a != b for a, b in pairs)


def test_a_collection_is_left_to_the_gateway() -> None:
    spec = DocumentQuestions(questions=1, collection="vs_1", mode="cag")
    made = body(next(document_questions(DOCUMENTS, spec, 1)))
    assert made["foreword"] == {"collection": "vs_1", "mode": "cag"}
    assert len(made["messages"]) == 1


def test_more_documents_than_there_are_can_not_be_wanted() -> None:
    with pytest.raises(WorkloadError, match="wants 6"):
        list(document_questions(DOCUMENTS, DocumentQuestions(documents_per_question=6), 1))


def test_an_agents_transcript_only_grows() -> None:
    made = [
        r for r in agent_loops(AgentLoops(agents=2, turns=4), WORDS, 1) if r.session == "agent-1"
    ]
    grown = [body(r)["messages"] for r in made]
    assert [len(messages) for messages in grown] == [2, 4, 6, 8]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(grown))
    assert len({orjson.dumps(body(r)["tools"]) for r in made}) == 1


def test_each_result_belongs_to_the_call_before_it() -> None:
    *_, last = agent_loops(AgentLoops(agents=1, turns=3), WORDS, 1)
    messages = body(last)["messages"]
    calls = [m["tool_calls"][0]["id"] for m in messages if "tool_calls" in m]
    assert calls == [m["tool_call_id"] for m in messages if m["role"] == "tool"]


def test_shuffled_tools_are_the_same_tools() -> None:
    made = list(agent_loops(AgentLoops(agents=1, turns=4, shuffled_tools=True), WORDS, 1))
    orders = [[t["function"]["name"] for t in body(r)["tools"]] for r in made]
    assert len({tuple(order) for order in orders}) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


CALL = {"id": "c", "type": "function", "function": {"name": "book", "arguments": "{}"}}
TRAJECTORY = {
    "traj": [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "book it"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "name": "book", "content": "done"},
        {"role": "assistant", "content": "It is booked."},
    ]
}  # fmt: skip


def test_a_recorded_loop_is_asked_step_by_step() -> None:
    made = list(recorded_loops([TRAJECTORY], WORDS, agents=None, max_output=50))
    assert [len(body(r)["messages"]) for r in made] == [2, 4]
    assert body(made[1])["messages"][3] == {"role": "tool", "tool_call_id": "c", "content": "done"}
    assert made[1].max_tokens == 3


def traced(
    at_s: float | None, blocks: Sequence[int], tokens: int, session: str | None = None
) -> TraceRequest:
    return TraceRequest(at_s, blocks, tokens, 64, session=session)


def test_equal_blocks_are_equal_texts_and_lengths_shrink_alike() -> None:
    scale = TraceScale(block_tokens=512, block_units=16)
    rows = [traced(5.0, [1, 2, 3], 1300), traced(6.5, [1, 2, 9], 1536)]
    made = list(trace_requests(rows, scale, WORDS, 1))
    one, other = (text.split() for text in texts(made))
    assert (len(one), len(other)) == (41, 48)
    assert one[:32] == other[:32]
    assert one[32:40] != other[32:40]
    assert [(r.at_s, r.max_tokens) for r in made] == [(0.0, 2), (1.5, 2)]


def test_a_trace_without_blocks_shares_nothing() -> None:
    scale = TraceScale(block_tokens=512, block_units=512, skip=1)
    made = list(trace_requests([traced(None, (), 9)] * 3, scale, WORDS, 1))
    assert len({*texts(made)}) == 2
    assert [r.at_s for r in made] == [None, None]


def test_sessions_of_a_trace_wait_only_where_that_is_asked_for() -> None:
    rows = [traced(0.0, [1], 10, "s"), traced(1.0, [1, 2], 20, "s")]
    for keep in (False, True):
        scale = TraceScale(block_tokens=16, block_units=16, keep_sessions=keep)
        made = list(trace_requests(rows, scale, WORDS, 1))
        assert [(r.session, r.turn) for r in made] == (
            [("s", 0), ("s", 1)] if keep else [(None, 0)] * 2
        )


def test_arrivals_are_laid_over_what_begins() -> None:
    spec = SharedPrefix(num_groups=1, prompts_per_group=2, num_turns=2, system_prompt_len=2)
    made = list(lay_arrivals(shared_prefix(spec, WORDS, 1), [7.0, 9.5]))
    assert [r.at_s for r in made] == [0.0, None, 2.5, None]
    with pytest.raises(WorkloadError, match="too few"):
        list(lay_arrivals(shared_prefix(spec, WORDS, 1), [7.0]))
    with pytest.raises(WorkloadError, match="no times"):
        list(lay_arrivals(shared_prefix(spec, WORDS, 1), [None, None]))


def test_a_tokenizer_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(WorkloadError, match="isn't a tokenizer"):
        token_words(tmp_path)
    with pytest.raises(WorkloadError, match="can't be read"):
        token_words(tmp_path / "nowhere.json")
