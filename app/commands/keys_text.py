"""Keys as people read them. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_HEADINGS = ("ID", "KEY", "TENANT", "ROLE", "PRIORITY", "STATUS", "EXPIRES", "LAST USED", "NAME")


def shown_key(record: Mapping[str, Any]) -> str:
    """One line."""
    expires = record["expires_at"]
    until = "" if expires is None else f", until {_moment(expires)}"
    return (
        f"{record['id']} ({record['hint']}): {record['role']} of {record['tenant']}, "
        f"{record['status']}{until}"
    )


def shown_keys(records: Sequence[Mapping[str, Any]]) -> str:
    """A table."""
    if not records:
        return "there are no keys: on loopback every request is the operator's"
    rows = [_HEADINGS, *(_row(record) for record in records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _row(record: Mapping[str, Any]) -> tuple[str, ...]:
    status = record["status"]
    if record["replaced_by"] is not None and status == "active":
        status = "rotated"
    return (
        record["id"],
        record["hint"],
        record["tenant"],
        record["role"],
        record["priority"],
        status,
        _moment(record["expires_at"]),
        _moment(record["last_used_at"]),
        record["name"] or "-",
    )


def _moment(seconds: int | None) -> str:
    if seconds is None:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
