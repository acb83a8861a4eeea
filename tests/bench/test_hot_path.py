"""The benchmark of the hot path: the same for all, and it runs."""

import asyncio
from pathlib import Path

import orjson
import pytest

from bench.hot_path.processes import FLOOR, running_gateways
from bench.hot_path.run import Plan, measure
from bench.hot_path.workload import Shape, Workload

HERE = Path(__file__).resolve().parents[2]


def bodies(shape: Shape, seed: int) -> list[bytes]:
    workload = Workload(shape, seed)
    return [workload.next().raw for _ in range(5)]


@pytest.mark.parametrize("shape", list(Shape))
def test_two_gateways_are_asked_the_very_same(shape: Shape) -> None:
    assert bodies(shape, 3) == bodies(shape, 3)
    assert not set(bodies(shape, 3)) & set(bodies(shape, 4))


def test_a_request_is_4_kb_of_which_at_most_200_bytes_are_new() -> None:
    one, other = (orjson.loads(raw) for raw in bodies(Shape.JSON, 1)[:2])
    assert 3900 <= len(bodies(Shape.JSON, 1)[0]) <= 4200
    assert one["messages"][0] == other["messages"][0]
    assert len(one["messages"][1]["content"]) <= 200


def test_a_follow_up_repeats_what_was_said() -> None:
    first = Workload(Shape.FOLLOW_UP, 1).next()
    second = orjson.loads(first.follow_up("an answer").raw)
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "user"]
    assert second["messages"][:2] == orjson.loads(first.raw)["messages"]


@pytest.mark.slow
def test_it_measures_the_gateway_and_the_floor(tmp_path: Path) -> None:
    plan = Plan(shapes=list(Shape), requests=20, rounds=1, connections=2)
    with running_gateways({"here": HERE}, tmp_path, step_s=0.0) as gateways:
        costs = asyncio.run(measure(gateways, plan))
    assert set(costs) == {(name, shape) for name in ("here", FLOOR) for shape in Shape}
    for shape in Shape:
        assert costs["here", shape][0] > costs[FLOOR, shape][0] > 0
