"""What a report says in text and JSON, on real ledgers."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.alerts import Budgets
from cache.engine_metrics import CachedTokens, CacheSource, EngineDelta
from cache.errors import LedgerUnavailableError, ReportGroupError
from cache.flame import FlameNode
from cache.ledger import LedgerStatus
from cache.prefill_speed import PrefillSpeed
from cache.report import Prices, Report, load_report
from cache.report_json import SCHEMA_VERSION, to_json
from cache.report_markdown import render_markdown
from cache.report_text import TEXT_WIDTH, render_text
from cache.report_values import Breakdown, Group
from cache.rows import LedgerRow, RequestStatus, insert_rows
from cache.summary import HitRate, Percentiles, Summary, TierSums, TokenSum

RowMaker = Callable[..., LedgerRow]
NOW = datetime(2026, 1, 2, 3, 5, tzinfo=UTC)
REPLICA = "http://127.0.0.1:30000"
GOLDEN = Path(__file__).parent / "golden"
PRICES = Prices(speed=PrefillSpeed(tokens_per_s=1000.0, tokens=5000), per_gpu_hour=3.6)
FLAME = FlameNode(
    label="",
    tokens=0,
    requests=4,
    served_tokens=0,
    cached_tokens=None,
    children=(
        FlameNode(
            label="docqa@1 · rules",
            tokens=64,
            requests=4,
            served_tokens=256,
            cached_tokens=192,
            known_tokens=256,
            children=(
                FlameNode(label="question", tokens=16, requests=1, served_tokens=16,
                          cached_tokens=0, known_tokens=16, start=64),
                FlameNode(label="", tokens=32, requests=1, served_tokens=32,
                          cached_tokens=None, start=64),
            ),
        ),
    ),
)  # fmt: skip


@pytest.fixture
def traffic(make_row: RowMaker) -> list[LedgerRow]:
    """Two templates; a cold request, hits, losses, an unknown tier, a failure, an abort."""
    nothing = {f"cached_{tier}": 0 for tier in ("gpu", "ram", "ssd", "redis", "storage")}
    sent = {"prompt_tokens": 1779, "replica": REPLICA, "mode": "cag", "collection": "ferry"}
    return [
        make_row(
            **sent, **nothing, cached_tokens=0, ideal_tokens=0, new_tokens=1779, lost={},
            verdict="cold", predicted_tokens=0, ttft_s=5.9,
        ),
        make_row(
            **sent, **{**nothing, "cached_gpu": 1760}, cached_tokens=1760, ideal_tokens=1760,
            new_tokens=19, lost={}, verdict="hit", predicted_tokens=1760, ttft_s=0.6,
        ),
        make_row(
            **sent, cached_gpu=0, cached_storage=1024, cached_tokens=1024, ideal_tokens=1728,
            new_tokens=19, lost={"evicted": 640, "rounding": 64, "changed": 32},
            verdict="evicted", predicted_tokens=1088, ttft_s=0.65,
        ),
        make_row(**sent, status=RequestStatus.ERROR, error_code="engine_timeout"),
        make_row(status=RequestStatus.ABORTED, template="chat@1", replica=REPLICA),
    ]  # fmt: skip


@pytest.fixture
def file(open_file: Callable[[], sa.Engine], traffic: list[LedgerRow]) -> sa.Engine:
    """A SQLite file with the traffic in it."""
    engine = open_file()
    with engine.begin() as connection:
        insert_rows(connection, traffic)
    return engine


@pytest.fixture
def connection(file: sa.Engine) -> Iterator[sa.Connection]:
    with file.connect() as connection:
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


def whole_report(connection: sa.Connection) -> Report:
    """A report with every part that there is."""
    return load_report(
        connection,
        now=NOW,
        counted=[engine_counted(1760, 1028)],
        budgets=Budgets.parse(["docqa=0.9", "chat=0.5", "gone=0.1"]),
        flame=FLAME,
        prices=PRICES,
    )


@pytest.mark.parametrize(
    ("name", "render"),
    [("report.txt", render_text), ("report.md", render_markdown), ("report.json", to_json)],
)
def test_each_form_is_the_one_that_people_were_promised(
    connection: sa.Connection, name: str, render: Callable[[Report], str]
) -> None:
    made = render(whole_report(connection))
    assert made == (GOLDEN / name).read_text(encoding="utf-8")


def test_both_databases_give_the_same_report(
    database: sa.Engine, connection: sa.Connection, traffic: list[LedgerRow]
) -> None:
    with database.begin() as other:
        insert_rows(other, traffic)
    with database.connect() as other:
        assert whole_report(other) == whole_report(connection)


def test_unknown_is_said_and_never_shown_as_zero(connection: sa.Connection) -> None:
    text = render_text(load_report(connection, now=NOW))
    chat = next(line for line in text.splitlines() if line.startswith("chat@1"))
    assert chat.split()[4:] == ["unknown"] * 6
    assert "0+?" in text
    assert "2 of 5 requests (40.0 %) have no known cached or prompt tokens" in text


def test_json_has_null_for_unknown_and_the_same_numbers(connection: sa.Connection) -> None:
    report = load_report(connection, now=NOW, counted=[engine_counted(1760, 924, resets=1)])
    values = json.loads(to_json(report))
    docqa, chat = values["groups"]
    assert chat["group"] == {"template": "chat@1"}
    assert chat["cached_tokens"] == {"tokens": None, "known_requests": 0, "unknown_requests": 1}
    assert chat["hit_rate"]["rate"] is None
    assert chat["waterfall"] is None
    assert chat["ttft_s"] == {"requests": 0, "p50": None, "p90": None, "p99": None}
    assert docqa["hit_rate"]["rate"] == (1760 + 1024) / (3 * 1779)
    assert docqa["cached_by_tier"]["storage"]["tokens"] == 1024
    assert docqa["cached_by_tier"]["ssd"]["unknown_requests"] == 2
    assert values["total"]["requests"] == 5
    assert values["schema_version"] == SCHEMA_VERSION == 2
    assert values["savings"] is None
    assert values["cross_check"]["difference_tokens"] == 100
    assert values["cross_check"]["unknown_requests"] == 2
    assert values["cross_check"]["templates"][0]["responses"] is None
    assert values["cross_check"]["engine_resets"] == 1
    assert values["ledger"] is None


def test_every_prompt_token_of_the_waterfall_is_told(connection: sa.Connection) -> None:
    fall = json.loads(to_json(load_report(connection, now=NOW)))["total"]["waterfall"]
    lost = fall["lost_tokens"]
    assert fall["requests"] == 3
    told = fall["new_tokens"] + sum(lost.values()) + fall["cached_tokens"]
    assert told == fall["prompt_tokens"] == 3 * 1779
    assert fall["ideal_tokens"] == fall["cached_tokens"] + lost["evicted"] + lost["rounding"]


def test_losses_that_no_reason_is_known_for_are_unknown(
    open_file: Callable[[], sa.Engine], make_row: RowMaker
) -> None:
    row = make_row(prompt_tokens=100, cached_tokens=16, ideal_tokens=64, new_tokens=36, lost={})
    with open_file().begin() as connection:
        insert_rows(connection, [row])
        report = load_report(connection, now=NOW)
    assert report.total is not None
    assert report.total.waterfall is not None
    assert report.total.waterfall.lost == {"unknown": 48}


def test_savings_say_what_they_are_computed_from(connection: sa.Connection) -> None:
    report = load_report(connection, now=NOW, prices=PRICES)
    savings = json.loads(to_json(report))["savings"]
    assert savings["saved"]["gpu_s"] == (1760 + 1024) / 1000
    assert savings["saved"]["money"] == pytest.approx((1760 + 1024) / 1000 / 1000)
    assert savings["lost"]["gpu_s"] == 0.736
    text = render_text(report)
    assert "1,000 tokens a second" in text
    assert "your price of 3.60 per GPU-hour" in text
    assert "isn't measured yet" in render_text(load_report(connection, now=NOW))


def test_money_is_told_only_with_a_price(connection: sa.Connection) -> None:
    text = render_text(load_report(connection, now=NOW, prices=Prices(speed=PRICES.speed)))
    assert "GPU time" in text
    assert "money" not in text


def test_a_report_without_requests_says_so(connection: sa.Connection) -> None:
    report = load_report(connection, now=NOW, since=NOW)
    assert report.total is None
    for text in (render_text(report), render_markdown(report)):
        assert "No request ended in this time." in text
    assert json.loads(to_json(report))["total"] is None


def test_a_window_that_begins_before_the_ledger_tells_when_its_first_requests_were(
    connection: sa.Connection,
) -> None:
    report = load_report(connection, now=NOW, since=NOW - timedelta(days=900), until=NOW)
    text = render_text(report)
    assert "2023-07-17" in text.splitlines()[0]
    assert "The first requests came within 5 minutes after 2026-01-02" in text


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
    assert "2,784+?" in render_text(load_report(connection, now=NOW, by=()))


def test_an_unknown_group_is_refused(connection: sa.Connection) -> None:
    with pytest.raises(ReportGroupError, match="can't be grouped by 'day'"):
        load_report(connection, now=NOW, by=("day",))


def test_rows_written_meanwhile_are_in_none_of_the_reports_parts(
    connection: sa.Connection, file: sa.Engine, make_row: RowMaker
) -> None:
    before = load_report(connection, now=NOW)
    with file.begin() as other:
        insert_rows(other, [make_row(request_id="late")])
    assert load_report(connection, now=NOW) == before
    connection.rollback()
    assert load_report(connection, now=NOW) != before


def test_groups_without_room_are_added_up(
    open_file: Callable[[], sa.Engine], make_row: RowMaker
) -> None:
    rows = [
        make_row(template=f"t{i}@1", prompt_tokens=10_000 - i, cached_tokens=5_000, ttft_s=0.1)
        for i in range(50)
    ]
    with open_file().begin() as connection:
        insert_rows(connection, rows)
        report = load_report(connection, now=NOW, top=5)
    assert [group.summary.group["template"] for group in report.groups.groups] == [
        f"t{i}@1" for i in range(5)
    ]
    assert report.groups.rest is not None
    assert report.groups.rest.summary.requests == 45
    assert report.groups.rest.summary.prompt.tokens == sum(10_000 - i for i in range(5, 50))
    assert report.total is not None
    shown = [*report.groups.groups, report.groups.rest]
    assert sum(g.summary.hit.cached_tokens for g in shown) == 50 * 5_000
    assert "45 others" in render_text(report)
    assert json.loads(to_json(report))["other_groups"] == 45


labels = st.none() | st.text(max_size=8) | st.just("long" * 40) | st.just("東京" * 30)
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
            ttft=Percentiles(requests=1, p50_s=draw(percentiles), p90_s=draw(percentiles)),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]


@settings(max_examples=50, deadline=None)
@given(some_summaries())
def test_text_is_printable_and_at_most_100_columns_wide(found: list[Summary]) -> None:
    nothing = Breakdown(by=("tenant",), groups=())
    report = Report(
        made_at=NOW,
        since=None,
        until=None,
        groups=Breakdown(by=("template",), groups=tuple(Group(summary=s) for s in found)),
        tenants=nothing,
        modes=nothing,
        replicas=nothing,
        collections=nothing,
        total=Group(summary=found[0]),
    )
    lines = render_text(report).split("\n")
    assert lines[-1] == ""
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) <= TEXT_WIDTH
    json.loads(to_json(report))


def test_all_is_said_only_of_all(open_file: Callable[[], sa.Engine], make_row: RowMaker) -> None:
    with open_file().begin() as connection:
        insert_rows(connection, [make_row(prompt_tokens=10_000, cached_tokens=9_999)])
        text = render_text(load_report(connection, now=NOW))
    assert "99.9 %" in text
    assert "100.0 %" not in text
