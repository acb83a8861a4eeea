import ast
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

import cache
from cache import errors
from cache.rows import LedgerRow
from cache.tables import ledger


def test_every_imported_name_is_public_and_every_public_name_is_imported() -> None:
    tree = ast.parse(Path(cache.__file__).read_text())
    imported = {
        alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert set(cache.__all__) == imported


@pytest.mark.parametrize(
    "error",
    [
        errors.LedgerRowError(request_id="r1", reason="DataError"),
        errors.LedgerUnavailableError(reason="locked", pending=3),
        errors.MetricsFormatError(source="SGLang", reason="empty"),
        errors.ReportBudgetError(word="high"),
        errors.ReportGroupError(column="day", allowed=("template",)),
        errors.ReportPageError(path=Path("plotly.min.js")),
        errors.TierSettingsError(setting="ram_gb", value=0, rule="above 0"),
    ],
)
def test_every_error_is_one_sentence_with_its_fields(error: errors.CacheError) -> None:
    sentence = str(error)
    assert "\n" not in sentence
    for value in vars(error).values():
        shown = ", ".join(value) if isinstance(value, tuple) else str(value)
        assert shown in sentence


def test_the_table_has_a_column_for_every_field_of_a_row() -> None:
    fields = list(LedgerRow.__dataclass_fields__)
    assert sorted(ledger.columns.keys()) == sorted([*fields, "series"])


@pytest.mark.parametrize("dialect", [sqlite.dialect(), postgresql.dialect()])
def test_both_databases_get_named_constraints_and_indexes(dialect: sa.Dialect) -> None:
    created = str(sa.schema.CreateTable(ledger).compile(dialect=dialect))
    assert "CONSTRAINT pk_ledger PRIMARY KEY (request_id)" in created
    assert "CONSTRAINT ck_ledger_status CHECK" in created
    assert {index.name for index in ledger.indexes} == {"ix_ledger_at", "ix_ledger_template_at"}
    if dialect.name == "postgresql":
        assert "at TIMESTAMP WITH TIME ZONE NOT NULL" in created
