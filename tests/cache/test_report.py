import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.engine_metrics import CachedTokens, CacheSource, EngineDelta
from cache.errors import LedgerUnavailableError, ReportGroupError
from cache.ledger import LedgerStatus
from cache.report import Report, load_report
from cache.report_json import to_json
from cache.report_text import TEXT_WIDTH, render_text
from cache.rows import LedgerRow, RequestStatus, insert_rows
from cache.summary import HitRate, Summary, TierSums, TokenSum, TtftPercentiles

RowMaker = Callable[..., LedgerRow]
NOW = datetime(2026, 1, 2, 3, 5, tzinfo=UTC)
REPLICA = "http://127.0.0.1:30000"


@pytest.fixture
def traffic(make_row: RowMaker) -> list[LedgerRow]:
    """Two templates; a cold request, hits, a load whose tier isn't known, a failure, an abort."""
    nothing = {f"cached_{tier}": 0 for tier in ("gpu", "ram", "ssd", "redis", "storage")}
    return [
        make_row(prompt_tokens=1779, cached_tokens=0, **nothing, ttft_s=5.9),
        make_row(
            prompt_tokens=1779, cached_tokens=1760, **{**nothing, "cached_gpu": 1760}, ttft_s=0.6
        ),
        make_row(
            prompt_tokens=1779, cached_tokens=1728, cached_gpu=0, cached_storage=1728, ttft_s=0.65
        ),
        make_row(
            status=RequestStatus.ERROR,
            prompt_tokens=1779,
            replica=REPLICA,
            error_code="engine_timeout",
        ),
        make_row(status=RequestStatus.ABORTED, template="chat@1", replica=REPLICA),
    ]


@pytest.fixture
def connection(database: sa.Engine, traffic: list[LedgerRow]) -> sa.Connection:
    with database.begin() as connection:
        insert_rows(connection, traffic)
    with database.connect() as connection:
        yield connection


def engine_counted(gpu: int, storage: int, resets: int = 0) -> EngineDelta:
    series = ((CacheSource.DEVICE, gpu), (CacheSource.STORAGE, storage))
    return EngineDelta(
        since=NOW - timedelta(hours=1),
        until=NOW,
        cached=tuple(
            CachedTokens(template="docqa@1", tenant="local", source=source, tokens=tokens)
            for source, tokens in series
        ),
        prompt_tokens=0,
        requests=0,
        resets=resets,
    )


def test_the_text_is_the_one_that_people_were_promised(connection: sa.Connection) -> None:
    report = load_report(connection, now=NOW, counted=engine_counted(1760, 1728))
    golden = Path(__file__).parent / "golden" / "report.txt"
    assert render_text(report) == golden.read_text(encoding="utf-8")


def test_unknown_is_said_and_never_shown_as_zero(connection: sa.Connection) -> None:
    text = render_text(load_report(connection, now=NOW))
    chat = next(line for line in text.splitlines() if line.startswith("chat@1"))
    assert chat.split()[4:] == ["unknown"] * 5
    assert "0+?" in text
    assert "2 of 5 requests have no known cached or prompt tokens" in text


def test_json_has_null_for_unknown_and_the_same_numbers(connection: sa.Connection) -> None:
    report = load_report(connection, now=NOW, counted=engine_counted(1760, 1628, resets=1))
    values = json.loads(to_json(report))
    chat, docqa = values["groups"]
    assert chat["group"] == {"template": "chat@1"}
    assert chat["cached_tokens"] == {"tokens": None, "known_requests": 0, "unknown_requests": 1}
    assert chat["hit_rate"]["rate"] is None
    assert chat["ttft_s"] == {"requests": 0, "p50": None, "p90": None}
    assert docqa["hit_rate"]["rate"] == (1760 + 1728) / (3 * 1779)
    assert docqa["cached_by_tier"]["storage"]["tokens"] == 1728
    assert docqa["cached_by_tier"]["ssd"] == {
        "tokens": 0,
        "known_requests": 2,
        "unknown_requests": 2,
    }
    assert docqa["ttft_s"] == {"requests": 3, "p50": 0.65, "p90": 5.9}
    assert values["total"]["requests"] == 5
    assert values["schema_version"] == 1
    assert values["cross_check"]["difference_tokens"] == 100
    assert values["cross_check"]["unknown_requests"] == 2
    assert values["cross_check"]["engine_resets"] == 1
    assert values["ledger"] is None


def test_a_report_without_requests_says_so(connection: sa.Connection) -> None:
    report = load_report(connection, now=NOW, since=NOW)
    assert report.total is None
    assert "No request ended in this time." in render_text(report)
    assert json.loads(to_json(report))["total"] is None


def test_what_the_ledger_lost_or_holds_back_is_said(connection: sa.Connection) -> None:
    status = LedgerStatus(
        pending=3,
        written=5,
        dropped=1200,
        last_error=LedgerUnavailableError(reason="OperationalError: disk full", pending=3),
        degraded=True,
    )
    report = load_report(connection, now=NOW, ledger=status)
    text = render_text(report)
    assert "1,200 requests' rows were lost" in text
    assert "3 rows wait to be written" in text
    assert "disk full" in text
    assert json.loads(to_json(report))["ledger"]["dropped"] == 1200


def test_groups_may_be_several_columns_or_none(connection: sa.Connection) -> None:
    text = render_text(load_report(connection, now=NOW, by=("template", "collection", "status")))
    assert "(none)" in text
    assert "aborted" in text
    text = render_text(load_report(connection, now=NOW, by=()))
    assert "3,488+?" in text


def test_an_unknown_group_is_refused(connection: sa.Connection) -> None:
    with pytest.raises(ReportGroupError, match="can't be grouped by 'day'"):
        load_report(connection, now=NOW, by=("day",))


def test_rows_written_meanwhile_are_in_none_of_the_reports_parts(
    connection: sa.Connection, database: sa.Engine, make_row: RowMaker
) -> None:
    before = load_report(connection, now=NOW)
    with database.begin() as other:
        insert_rows(other, [make_row(request_id="late")])
    assert load_report(connection, now=NOW) == before
    connection.rollback()
    assert load_report(connection, now=NOW) != before


labels = st.none() | st.text(max_size=8) | st.just("long" * 40)
percentiles = st.none() | st.floats(0, 10**4)
counts = st.integers(0, 10**10)
sums = st.builds(
    TokenSum, tokens=st.integers(0, 10**15), known_requests=counts, unknown_requests=counts
)


@st.composite
def some_summaries(draw: st.DrawFn) -> list[Summary]:
    """Groups with figures of any size; what they say needn't be consistent to be laid out."""
    tokens = draw(sums)
    return [
        Summary(
            group={"template": draw(labels)},
            requests=draw(counts),
            errors=draw(counts),
            aborted=draw(counts),
            prompt=draw(sums),
            completion=tokens,
            cached=draw(sums),
            by_tier=TierSums(gpu=draw(sums), ram=tokens, ssd=tokens, redis=tokens, storage=tokens),
            hit=HitRate(cached_tokens=draw(counts), prompt_tokens=10**10, requests=draw(counts)),
            ttft=TtftPercentiles(requests=1, p50_s=draw(percentiles), p90_s=draw(percentiles)),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]


@settings(max_examples=50, deadline=None)
@given(some_summaries())
def test_text_is_printable_and_at_most_100_columns_wide(found: list[Summary]) -> None:
    report = Report(
        made_at=NOW,
        since=None,
        until=None,
        by=("template",),
        summaries=tuple(found),
        total=found[0],
    )
    lines = render_text(report).split("\n")
    assert lines[-1] == ""
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) <= TEXT_WIDTH
    json.loads(to_json(report))


def test_all_is_said_only_of_all(database: sa.Engine, make_row: RowMaker) -> None:
    with database.begin() as connection:
        insert_rows(connection, [make_row(prompt_tokens=10_000, cached_tokens=9_999)])
        text = render_text(load_report(connection, now=NOW))
    assert "99.9 %" in text
    assert "100.0 %" not in text
