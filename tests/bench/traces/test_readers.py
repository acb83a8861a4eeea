"""Each format is read as it stands; what is wrong is said in one sentence with its line."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import TraceError
from bench.traces import FORMATS, SyntheticOptions, TraceRequest, open_trace, synthetic_trace
from cache.ledger_row import LedgerRow, RequestStatus
from cache.rows import insert_rows
from cache.tables import metadata

MOONCAKE = {"timestamp": 1500, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}
BAILIAN = {
    "chat_id": 7,
    "parent_chat_id": -1,
    "timestamp": 2.5,
    "input_length": 30,
    "output_length": 4,
    "type": "text",
    "turn": 1,
    "hash_ids": [3, 4],
}
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def _jsonl(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_mooncake_rows_are_requests(tmp_path: Path) -> None:
    """Milliseconds become seconds; the format is told by the first line, plain or packed."""
    path = _jsonl(tmp_path / "a.jsonl", MOONCAKE, {**MOONCAKE, "timestamp": 1500.5})
    trace = open_trace(path)
    assert (trace.name, trace.block_tokens) == ("a", 512)
    first, second = trace
    assert first == TraceRequest(1.5, [0, 1], 700, 5)
    assert second.at_s == 1.5005
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert (open_trace(packed).name, list(open_trace(packed))) == ("a", [first, second])


def test_bailian_turns_are_called_after_their_first(tmp_path: Path) -> None:
    """A turn belongs to the conversation of the one before it, by whatever way."""
    follow = {**BAILIAN, "chat_id": 8, "parent_chat_id": 7, "hash_ids": [3, 4, 5]}
    last = {**BAILIAN, "chat_id": 9, "parent_chat_id": 8}
    other = {**BAILIAN, "chat_id": 10, "parent_chat_id": 99, "type": "image"}
    trace = open_trace(_jsonl(tmp_path / "b.jsonl", BAILIAN, follow, last, other))
    assert trace.block_tokens == 16
    assert [(r.session, r.template) for r in trace] == [
        ("7", "text"), ("7", "text"), ("7", "text"), ("10", "image"),
    ]  # fmt: skip


def test_azure_has_arrivals_and_lengths_only(tmp_path: Path) -> None:
    """Seven digits of a second, or a zone; times count from the first."""
    path = tmp_path / "c.csv"
    path.write_text(
        f"{AZURE}2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600+00:00,3,0\n"
    )
    trace = open_trace(path)
    assert trace.block_tokens is None
    assert list(trace) == [TraceRequest(0.0, (), 4808, 10), TraceRequest(0.052, (), 3, 0)]


def test_a_request_log_shares_what_its_prompts_share(tmp_path: Path) -> None:
    """Equal openings have equal blocks; a document that moved has equal pieces."""
    rules, one, two = "Answer briefly. " * 30, "First document. " * 40, "Second text. " * 50

    def body(*texts: str) -> dict[str, object]:
        system = {"role": "system", "content": rules}
        users = [{"role": "user", "content": text} for text in texts]
        return {"model": "m", "messages": [system, *users], "user": "u1"}

    trace = open_trace(_jsonl(tmp_path / "d.jsonl", body(one, two), body(two, one)))
    first, second = trace
    shared = sum(a == b for a, b in zip(first.blocks, second.blocks, strict=False))
    assert (trace.block_tokens, trace.piece_tokens) == (16, 64)
    assert first.at_s is None
    assert len(rules) // 64 <= shared < len(first.blocks) // 2
    assert set(first.pieces) == set(second.pieces)
    assert first.session == "u1"


def test_a_ledger_has_blocks_only_where_texts_are_kept(tmp_path: Path) -> None:
    """Arrivals are ends less durations; tenants share nothing; unknown lengths are left out."""
    ended = datetime(2026, 1, 1, tzinfo=UTC)
    common = {"tenant": "a", "template": "chat@1", "status": RequestStatus.OK}
    text = "x" * 200
    rows = [
        LedgerRow(request_id="1", at=ended, prompt_tokens=50, e2e_s=2.0,
                  prompt_text=text, **common),
        LedgerRow(request_id="2", at=ended + timedelta(seconds=5), prompt_tokens=50, e2e_s=1.0,
                  prompt_text=text, **common),
        LedgerRow(request_id="3", at=ended + timedelta(seconds=6), prompt_tokens=50,
                  prompt_text=text, **{**common, "tenant": "b"}),
        LedgerRow(request_id="4", at=ended + timedelta(seconds=7), prompt_tokens=9, **common),
        LedgerRow(request_id="5", at=ended + timedelta(seconds=8), **common),
    ]  # fmt: skip
    path = tmp_path / "foreword.db"
    engine = sa.create_engine(f"sqlite:///{path}")
    metadata.create_all(engine)
    with engine.begin() as connection:
        insert_rows(connection, rows)
    engine.dispose()
    one, two, three, four = open_trace(path)
    assert (one.at_s, two.at_s) == (0.0, pytest.approx(6.0, abs=1e-3))
    assert list(one.blocks) == list(two.blocks) != []
    assert not set(one.blocks) & set(three.blocks)
    assert (list(four.blocks), four.input_tokens, four.template) == ([], 9, "chat@1")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (json.dumps(MOONCAKE) + "\n{", 2, "truncated"),
        (json.dumps(MOONCAKE) + "\n" + json.dumps({**MOONCAKE, "timestamp": 1}), 2, "back in time"),
        (json.dumps({**MOONCAKE, "hash_ids": ["x"]}), 1, "hash_ids"),
        (json.dumps({**MOONCAKE, "input_length": -1}), 1, "input_length"),
        (json.dumps({"hash_ids": []}), 1, "timestamp"),
        (json.dumps(BAILIAN).replace("2.5", '"soon"'), 1, "timestamp"),
        (AZURE + "2023-11-16 18:17:03,1\n", 2, "int"),
        (AZURE + "yesterday,1,1\n", 2, "yesterday"),
        (AZURE + "2023-11-16 18:17:03,-1,1\n", 2, "-1"),
        ("TIMESTAMP,ContextTokens\n", 1, "GeneratedTokens"),
        ('{"nothing": 1}', 1, ""),
        ("hello", 1, "is of no known format"),
        ("[1]", 1, "is of no known format"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    """One sentence, no traceback of a library."""
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(TraceError) as caught:
        list(open_trace(path))
    assert caught.value.line == line
    assert said in caught.value.problem
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", FORMATS)
def test_files_that_cannot_be_read_are_trace_errors(tmp_path: Path, form: str) -> None:
    """Whatever the format: no file, a folder, damaged gzip."""
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(b"x" * 9999)[:40])
    for path in (tmp_path / "nothing", tmp_path, damaged):
        with pytest.raises(TraceError):
            list(open_trace(path, form=form))


@given(st.binary(max_size=200), st.sampled_from(FORMATS))
def test_any_bytes_give_requests_or_a_trace_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, form: str
) -> None:
    """Nothing else comes out of a file."""
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(data)
    try:
        requests = list(open_trace(path, form=form))
    except TraceError:
        requests = []
    assert all(request.input_tokens >= 1 for request in requests)


def _first(options: SyntheticOptions, count: int) -> list[TraceRequest]:
    return list(islice(synthetic_trace(options), count))


def test_made_up_traffic_follows_from_its_seed() -> None:
    """Equal seeds give equal requests, longer ones begin with shorter ones, others differ."""
    options = SyntheticOptions(requests=400)
    requests = _first(options, 400)
    assert requests == _first(SyntheticOptions(requests=4000), 400)
    assert requests != _first(SyntheticOptions(requests=400, seed=2), 400)
    times = [request.at_s for request in requests]
    assert times == sorted(times, key=lambda t: t or 0.0)


def test_made_up_turns_continue_their_conversation() -> None:
    """A block always stands behind the same others, and a turn begins with the one before it."""
    last: dict[str | None, list[int]] = {}
    behind: dict[int, int] = {}
    continued = 0
    for request in _first(SyntheticOptions(requests=3000, openings=5, per_s=2.0), 3000):
        path = list(request.blocks)
        for before, block in zip([-1, *path], path, strict=False):
            assert behind.setdefault(block, before) == before
        if request.session in last:
            continued += 1
            assert path[: len(last[request.session])] == last[request.session]
        last[request.session] = path
    assert 0.3 < continued / 3000 < 0.7
