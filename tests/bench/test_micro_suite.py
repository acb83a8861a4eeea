"""How figures are held against their budgets."""

import pytest

from bench.micro.suite import Figure, table
from bench.soak.accounting_cost import difference

MEASURED: dict[str, object] = {
    "processor": "a processor",
    "cores": 2,
    "load_average": [1.0],
    "python": "3.11",
    "commit": "abc",
}


def figure(value: float, budget: float | None, *, least: bool = False) -> Figure:
    return Figure(benchmark="b", name="n", value=value, unit="µs", budget=budget, least=least)


@pytest.mark.parametrize(
    ("measured", "good"),
    [
        (figure(40, 40), True),
        (figure(41, 40), False),
        (figure(41, 40, least=True), True),
        (figure(39, 40, least=True), False),
        (figure(1e9, None), True),
    ],
)
def test_a_budget_is_the_most_or_the_least_allowed(measured: Figure, good: bool) -> None:
    assert measured.good is good


def test_the_table_marks_what_is_over_budget() -> None:
    rows = table([figure(41, 40), figure(3.14159, 40), figure(5, None)], MEASURED).splitlines()
    assert rows[2] == "| b | n | 41 µs | ≤ 40 | **NO** |"
    assert rows[3] == "| b | n | 3.14 µs | ≤ 40 | yes |"
    assert rows[4] == "| b | n | 5.00 µs |  |  |"


def test_the_difference_is_of_rounds_not_of_medians() -> None:
    assert difference([10.0, 30.0, 20.0], [1.0, 25.0, 19.0]) == (5.0, 1.0, 9.0)
