"""Sums over rows, however a database hands them over, against the same worked out row by row."""

from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cache.counting import figures_of
from cache.figures import FIGURES
from cache.histograms import LONGEST_S, SHORTEST_S, Histogram, bucket_of
from cache.histograms_in_sql import bucket_in_sql
from cache.packed_rows import pieces
from cache.row_sums import sums_of_rows
from cache.rows import LedgerRow, RequestStatus, insert_rows
from cache.tables import metadata
from cache.verdicts import Verdict

EngineMaker = Callable[..., sa.Engine]
RowMaker = Callable[..., LedgerRow]
START = datetime(2026, 1, 1, tzinfo=UTC)

# Around what is a code point, what stands for "doesn't fit", and what is half a pair in UTF-16.
counts = (
    st.none()
    | st.integers(0, 300)
    | st.sampled_from(
        [0xD7FE, 0xD7FF, 0xDFFF, 0xFFFB, 0xFFFC, 0xFFFD, 0x10FFFE, 0x10FFFF, 2**31 - 1]
    )
)
small = st.none() | st.integers(0, 3)
times = st.none() | st.floats(0, 2.0**21) | st.sampled_from([2.0**-20, 0.25, 2.0**20])


def rows_of(figures: st.SearchStrategy[int | None]) -> st.SearchStrategy[list[LedgerRow]]:
    return st.lists(
        st.builds(
            LedgerRow,
            request_id=st.uuids().map(str),
            at=st.integers(0, 9).map(lambda minutes: START + timedelta(minutes=minutes)),
            tenant=st.sampled_from(["a", "b"]),
            template=st.sampled_from(["chat@1", "docqa@1"]),
            status=st.sampled_from(RequestStatus),
            collection=st.none(),
            mode=st.none(),
            replica=st.none(),
            **dict.fromkeys(_COUNTED, figures),
            ttft_s=times,
            e2e_s=times,
            verdict=st.none() | st.sampled_from(Verdict) | st.just("a word of later"),
            lost=st.none()
            | st.dictionaries(st.sampled_from([*Verdict, "later"]), st.integers(0, 2**31 - 1)),
            divergence=st.none(),
            error_code=st.none(),
        ),
        max_size=30,
        unique_by=lambda row: row.request_id,
    )


_COUNTED = [
    name for name in LedgerRow.__dataclass_fields__ if name.endswith("_tokens") or "cached" in name
]


@pytest.fixture(scope="module")
def filled(open_database: EngineMaker) -> Callable[[list[LedgerRow]], sa.Engine]:
    engine = open_database()

    def fill(rows: list[LedgerRow]) -> sa.Engine:
        with engine.begin() as connection:
            for table in metadata.sorted_tables:
                connection.execute(sa.delete(table))
            insert_rows(connection, rows)
        return engine

    return fill


@settings(max_examples=25)
@given(rows_of(small) | rows_of(counts), st.integers(1, 12), st.booleans())
def test_sums_of_rows_are_those_of_each_row_by_itself(
    filled: Callable[[list[LedgerRow]], sa.Engine],
    rows: list[LedgerRow],
    piece_rows: int,
    bounded: bool,
) -> None:
    since, until = (START + timedelta(minutes=2), START + timedelta(minutes=7))
    window = {"since": since, "until": until} if bounded else {"since": None, "until": None}
    figures: defaultdict[object, list[int]] = defaultdict(lambda: [0] * len(FIGURES))
    histograms: defaultdict[object, Histogram] = defaultdict(Histogram)
    with filled(rows).connect() as connection:
        for found in sums_of_rows(
            connection, by=("template", "tenant"), piece_rows=piece_rows, **window
        ):
            place = figures[found.labels]
            place[:] = [one + more for one, more in zip(place, found.figures, strict=True)]
            for kind, histogram in found.times.items():
                histograms[found.labels, kind] += histogram

    inside = [row for row in rows if not bounded or since <= row.at < until]
    groups = {(row.template, row.tenant) for row in inside}
    assert groups == {labels for labels, values in figures.items() if any(values)}
    for group in groups:
        of_group = [row for row in inside if (row.template, row.tenant) == group]
        assert figures[group] == figures_of(of_group).sum(axis=0).tolist()
        e2e = Histogram.of(row.e2e_s for row in of_group if row.e2e_s is not None)
        assert histograms[group, "e2e"] == e2e
        for kind, reused in (("hits", True), ("misses", False), ("unknown", None)):
            ttft = Histogram.of(
                row.ttft_s
                for row in of_group
                if row.ttft_s is not None
                and (None if row.cached_tokens is None else row.cached_tokens > 0) is reused
            )
            assert histograms[group, f"ttft_{kind}"] == ttft


@settings(max_examples=40)
@given(st.lists(st.floats(0, 2.0**22), min_size=1, max_size=20))
@example([0.0, SHORTEST_S, LONGEST_S, 1.0, 2.0**-6, 2.0**6, 0.1, 1e-9, 1e300])
def test_a_database_puts_each_time_into_its_bucket(
    filled: Callable[[list[LedgerRow]], sa.Engine], seconds: list[float]
) -> None:
    near = [value * (1 + step * 2.0**-52) for value in seconds for step in (-2, -1, 0, 1, 2)]
    one_by_one = [
        sa.select(sa.literal(n).label("n"), sa.cast(value, sa.Double).label("seconds"))
        for n, value in enumerate(near)
    ]
    values = sa.union_all(*one_by_one).subquery()
    statement = sa.select(bucket_in_sql(values.c.seconds)).order_by(values.c.n)
    with filled([]).connect() as connection:
        found = connection.scalars(statement).all()
    assert found == [bucket_of(value) for value in near]


def test_pieces_are_whole_though_many_rows_have_one_time(
    open_file: EngineMaker, make_row: RowMaker
) -> None:
    minutes = [0, 1, 1, 1, 1, 2, 3]
    engine = open_file()
    with engine.begin() as connection:
        insert_rows(connection, [make_row(at=START + timedelta(minutes=n)) for n in minutes])
        found = list(pieces(connection, None, None, rows=2))
    assert found == [
        (None, START + timedelta(minutes=1)),
        (START + timedelta(minutes=1), START + timedelta(minutes=3)),
        (START + timedelta(minutes=3), None),
    ]


def test_rows_of_a_series_that_is_gone_are_left_out(
    open_file: EngineMaker, make_row: RowMaker
) -> None:
    engine = open_file()
    with engine.begin() as connection:
        insert_rows(connection, [make_row(lost={"evicted": 5}, tenant=name) for name in "ab"])
        connection.exec_driver_sql("DELETE FROM ledger_series WHERE tenant = 'a'")
        (found,) = sums_of_rows(connection, since=None, until=None, by=("tenant",))
    assert found.labels == ("b",)
    assert dict(zip(FIGURES, found.figures, strict=True))["lost_evicted"] == 5
