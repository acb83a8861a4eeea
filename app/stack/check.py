"""One thing that ``foreword doctor`` looked at."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """``NOTE`` is worth knowing and no fault; only ``PROBLEM`` makes the exit status 1."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at: what was found, and what to do about it, if anything."""

    name: str
    status: Status
    found: str
    advice: str | None = None


def ok(name: str, found: str) -> Check:
    return Check(name=name, status=Status.OK, found=found)


def note(name: str, found: str, advice: str | None = None) -> Check:
    return Check(name=name, status=Status.NOTE, found=found, advice=advice)


def problem(name: str, found: str, advice: str) -> Check:
    return Check(name=name, status=Status.PROBLEM, found=found, advice=advice)
