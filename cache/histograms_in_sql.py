"""The buckets of `cache.histograms` as a database works them out, value for value the same.

A time is compared with powers of two until its own is found, and scaled by that: exact in floating
point, and with nothing but what SQLite and PostgreSQL have in common.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from cache.histograms import LONGEST_S, SHORTEST_S, bucket_of

Seconds = sa.ColumnElement[float]
Bucket = sa.ColumnElement[int]

_USUAL = range(-6, 6)  # exponents of most times: their powers are compared first


class _Whole(GenericFunction[int]):
    """The whole part of a number above 0: a cast rounds in PostgreSQL, and cuts in SQLite."""

    type = sa.Integer()
    inherit_cache = True
    name = "foreword_whole"


@compiles(_Whole)
def _compile_whole(element: _Whole, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST(TRUNC({compiler.process(element.clauses, **options)}) AS INTEGER)"


@compiles(_Whole, "sqlite")
def _compile_whole_in_sqlite(element: _Whole, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **options)} AS INTEGER)"


def bucket_in_sql(seconds: Seconds) -> Bucket:
    """`bucket_of` of a column; NULL, too, gives a bucket: leave such rows out."""
    shorter = sa.case(
        (seconds < _number(SHORTEST_S), _number(0)),
        else_=_between(seconds, _exponent(SHORTEST_S), _USUAL.start),
    )
    longer = sa.case(
        (seconds >= _number(LONGEST_S), _number(bucket_of(LONGEST_S))),
        else_=_between(seconds, _USUAL.stop, _exponent(LONGEST_S)),
    )
    return sa.case(
        (seconds < _number(2.0**_USUAL.start), shorter),
        (seconds < _number(2.0**_USUAL.stop), _between(seconds, _USUAL.start, _USUAL.stop)),
        else_=longer,
    )


def _between(seconds: Seconds, first: int, last: int) -> Bucket:
    """For times from 2**first on and below 2**last."""
    if last - first == 1:
        start = bucket_of(2.0**first)
        width = bucket_of(2.0**last) - start
        in_widths = seconds * _number(width / 2.0**first)
        return _Whole(in_widths) + _number(start - width)
    middle = (first + last) // 2
    return sa.case(
        (seconds < _number(2.0**middle), _between(seconds, first, middle)),
        else_=_between(seconds, middle, last),
    )


def _exponent(power: float) -> int:
    exponent = 0
    while 2.0**exponent < power:
        exponent += 1
    while 2.0**exponent > power:
        exponent -= 1
    return exponent


def _number(value: float) -> sa.ColumnElement[Any]:
    """As a literal, which costs less than a parameter for each row."""
    return sa.literal_column(repr(value))
