"""Labels in bounded number: the caps hold, and a label that has a name keeps it."""

from collections.abc import Callable
from dataclasses import asdict

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from cache.labels import OTHER, KnownLabels, LabelCaps, Labels
from cache.rows import LedgerRow, RequestStatus, insert_rows
from cache.summary import rescan, summaries
from cache.tables import LABELS, ledger, ledger_series

RowMaker = Callable[..., LedgerRow]
SMALL = LabelCaps(template=2, tenant=2, collection=3, mode=1, replica=2, error_code=1, series=12)
values = st.none() | st.sampled_from(["a", "b", "c", "d", "e", OTHER])
label_sets = st.tuples(
    values, values, values, values, values, st.sampled_from(RequestStatus), values
)


@given(st.lists(label_sets, max_size=60))
def test_no_label_gets_more_names_than_its_cap_and_no_more_series_than_theirs(
    seen: list[Labels],
) -> None:
    known = KnownLabels(SMALL)
    found = [known.bounded(labels) for labels in seen]
    for place, label in enumerate(LABELS):
        names = {labels[place] for labels in found} - {None, OTHER}
        assert len(names) <= (3 if label == "status" else asdict(SMALL)[label])
    assert len(set(found)) <= SMALL.series + 6


@given(st.lists(label_sets, max_size=40))
def test_labels_are_counted_under_the_same_names_for_ever(seen: list[Labels]) -> None:
    known = KnownLabels(SMALL)
    first = [known.bounded(labels) for labels in seen]
    assert [known.bounded(labels) for labels in seen] == first
    again = KnownLabels(SMALL, set(first))
    assert [again.bounded(labels) for labels in seen] == first


@given(st.lists(label_sets, max_size=5))
def test_within_the_caps_every_label_keeps_its_name(seen: list[Labels]) -> None:
    known = KnownLabels(LabelCaps())
    assert [known.bounded(labels) for labels in seen] == seen


def test_beyond_the_cap_roll_ups_say_other_and_rows_keep_their_own_label(
    database: sa.Engine, make_row: RowMaker
) -> None:
    rows = [make_row(tenant=f"t{number}", prompt_tokens=1) for number in range(5)]
    with database.begin() as connection:
        for row in rows:
            insert_rows(connection, [row], caps=SMALL)
        found = summaries(connection, by=("tenant",))
        assert {summary.group["tenant"]: summary.requests for summary in found} == {
            "t0": 1,
            "t1": 1,
            OTHER: 3,
        }
        assert found == rescan(connection, by=("tenant",))
        own = set(connection.scalars(sa.select(ledger.c.tenant)))
    assert own == {row.tenant for row in rows}


def test_a_client_that_makes_up_labels_makes_no_table_grow(
    database: sa.Engine, make_row: RowMaker
) -> None:
    with database.begin() as connection:
        for batch in range(4):
            rows = [
                make_row(collection=f"c{batch}-{number}", template=f"x{number}@1")
                for number in range(100)
            ]
            insert_rows(connection, rows, caps=SMALL)
        assert connection.scalar(sa.select(sa.func.count()).select_from(ledger_series)) <= 18 + 30
        assert sum(summary.requests for summary in summaries(connection)) == 400


def test_an_overlong_label_is_cut_the_same_everywhere(
    database: sa.Engine, make_row: RowMaker
) -> None:
    long = "x" * 1000
    changes = {
        "tenant": long,
        "error_code": long,
        "mode": long,
        "route_reason": long,
        "cause": long,
    }
    with database.begin() as connection:
        assert insert_rows(connection, [make_row(**changes)]) == 1
        (summary,) = summaries(connection, by=("tenant", "mode"))
        assert summary.group == {"tenant": long[:128], "mode": long[:16]}
        assert connection.scalars(sa.select(ledger.c.tenant)).all() == [long[:128]]


@pytest.mark.parametrize("label", ["tenant", "series"])
def test_caps_below_one_are_refused(label: str) -> None:
    with pytest.raises(ValueError, match=f"{label} must be 1 or more"):
        LabelCaps(**{label: 0})
