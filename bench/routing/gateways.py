"""Several gateways before the same replicas, against one: in simulated time, and live."""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from app.routing import LeastTtft
from bench.routing.contenders import contenders, running_gateways, running_redis
from bench.routing.fleet import new_fleet
from bench.routing.live import TOKENS_A_BLOCK, LiveOptions, LiveOutcome, drive
from bench.routing.replicas import running_engines
from bench.routing.routers import ForewordRouter
from bench.routing.simulate import replay
from bench.routing.tables import environment_line, table
from bench.routing.traces import BLOCK_TOKENS, Arrival
from bench.routing.views import EventView, NotesView, SentView, View
from bench.routing.workloads import Cell, middle_cells
from bench.soak.model_folder import write_model_folder

Row = dict[str, Any]
MOST_LOST = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to run gateways live; its loss is against the lone one with the same `events`."""

    name: str
    gateways: int
    events: bool
    redis: bool


ARMS = (
    Arm(name="1 gateway, no KV events", gateways=1, events=False, redis=False),
    Arm(name="2 gateways, no KV events, nothing shared", gateways=2, events=False, redis=False),
    Arm(name="2 gateways, no KV events, Redis", gateways=2, events=False, redis=True),
    Arm(name="1 gateway, KV events", gateways=1, events=True, redis=False),
    Arm(name="2 gateways, KV events, Redis", gateways=2, events=True, redis=True),
)


def simulated(folder: Path) -> Iterator[Row]:
    """The second half of each trace, which nothing was tuned on."""
    for cell in middle_cells(folder):
        arrivals = cell.arrivals(folder)
        alone: dict[bool, float] = {}
        for name, views in _knowledge(cell, arrivals[-1].at_s):
            fleet = new_fleet(
                cell.num_replicas,
                capacity=cell.capacity,
                prefill_tokens_per_s=cell.workload.prefill_tokens_per_s,
            )
            routers = [ForewordRouter(LeastTtft(), view, cell.num_replicas) for view in views]
            outcome = replay(arrivals, fleet, routers).second
            base = alone.setdefault(isinstance(views[0], EventView), outcome.hit_rate)
            yield {
                "trace": cell.workload.name,
                "gateways": name,
                **asdict(outcome),
                "lost_share": 1 - outcome.hit_rate / base,
            }


def _knowledge(cell: Cell, end_s: float) -> Iterable[tuple[str, Sequence[View]]]:
    """What gateways know; of those with and without events the lone one comes first."""
    k = cell.num_replicas
    # A real index is larger than the caches, and hears of no eviction.
    size = 4 * cell.capacity

    def notes(number: int, **wrong: Any) -> list[View]:
        return [NotesView(k, believed_capacity=size, **wrong) for _ in range(number)]

    def sent(number: int) -> list[View]:
        return [SentView(k, believed_capacity=size) for _ in range(number)]

    yield "1, no KV events", sent(1)
    for number in (2, 4):
        yield f"{number}, no KV events, nothing shared", sent(number)
        yield f"{number}, no KV events, notes 0.1 s late", notes(number)
    yield "2, no KV events, notes 2 s late", notes(2, lag_s=2.0)
    away = (0.6 * end_s, 0.65 * end_s)
    yield "2, no KV events, Redis away for a tenth of the half", notes(2, away_s=away)
    for number in (1, 2, 4):
        yield f"{number}, KV events", [EventView(k) for _ in range(number)]


def held_out(cell: Cell, folder: Path, *, requests: int) -> list[Arrival]:
    """A stretch from the middle of the trace on."""
    arrivals = cell.arrivals(folder)
    stretch = arrivals[len(arrivals) // 2 :][:requests]
    return [replace(arrival, at_s=arrival.at_s - stretch[0].at_s) for arrival in stretch]


def live(
    cell: Cell, folder: Path, *, requests: int, speedup: float, tell: Callable[[Row], None]
) -> Iterator[Row]:
    """Real gateway processes, simulated engines, a real Redis. Raises StackStartError."""
    arrivals = held_out(cell, folder, requests=requests)
    speed = cell.workload.prefill_tokens_per_s * TOKENS_A_BLOCK / BLOCK_TOKENS
    options = LiveOptions(
        num_replicas=cell.num_replicas,
        requests=len(arrivals),
        prefill_tokens_per_s=speed,
        speedup=speedup,
    )
    alone: dict[bool, float] = {}
    with tempfile.TemporaryDirectory(prefix="foreword-gateways-") as made:
        model = write_model_folder(Path(made) / "model")
        for number, arm in enumerate(ARMS):
            place = Path(made) / str(number)
            outcome = _one_arm(arm, arrivals, options, place, model, cell.capacity)
            base = alone.setdefault(arm.events, outcome.hit_rate)
            row = {"trace": cell.workload.name, "gateways": arm.name, **asdict(outcome)}
            row["lost_share"] = 1 - outcome.hit_rate / base
            tell(row)
            yield row


def _one_arm(
    arm: Arm,
    arrivals: Sequence[Arrival],
    options: LiveOptions,
    place: Path,
    model: Path,
    capacity: int,
) -> LiveOutcome:
    contender = contenders(Path("/nowhere"))[0]
    with ExitStack() as stack:
        redis_url = stack.enter_context(running_redis(place)) if arm.redis else None
        ports = stack.enter_context(
            running_engines(
                options.num_replicas,
                place,
                model,
                pool_tokens=capacity * TOKENS_A_BLOCK,
                prefill_tokens_per_s=options.prefill_tokens_per_s,
                speedup=options.speedup,
                events=arm.events,
            )
        )
        running = stack.enter_context(
            running_gateways(contender, ports, place, gateways=arm.gateways, redis_url=redis_url)
        )
        return asyncio.run(drive(arrivals, running, options))


def page(result: Mapping[str, Any]) -> str:
    """Both tables."""
    options, measured = result["options"], result["measured"]
    lines = [
        "# Several gateways before the same replicas",
        "",
        "Requests go to the gateways in turn, so that a conversation's next request is seldom at "
        "the gateway that had its last. *Lost* is the share of hits that one gateway has on the "
        "same requests with the same knowledge; "
        f"the goal is at most {MOST_LOST:.0%}.",
        "",
        "## Live",
        "",
        f"The {options['requests']:,} requests from the middle of a trace on, at "
        f"{options['speedup']:g} times its speed, over HTTP through real gateway processes with "
        f"one database, one secret and a real Redis, to {options['num_replicas']} simulated "
        "engines.",
        "",
        *_live_rows(measured["live"]),
        "",
        "## Simulated",
        "",
        "The second half of each trace at eight replicas with caches of the middle size; caches "
        "are believed four times as large as they are where no events come.",
        "",
        *_simulated_rows(measured["simulated"]),
        "",
    ]
    return "\n".join([*lines, *environment_line(result)])


def _live_rows(rows: Sequence[Row]) -> Iterator[str]:
    head = ["trace", "gateways", "hits", "lost", "imbalance", "TTFT mean s", "p99", "failed"]
    return table(
        head,
        (
            [*_common(row), f"{row['ttft_p99_s']:.2f}", f"{row['failed']} of {row['requests']}"]
            for row in rows
        ),
    )


def _simulated_rows(rows: Sequence[Row]) -> Iterator[str]:
    head = ["trace", "gateways", "hits", "lost", "imbalance", "TTFT mean s", "p99"]
    return table(head, ([*_common(row), f"{row['ttft_p99_s']:.2f}"] for row in rows))


def _common(row: Row) -> list[str]:
    return [
        row["trace"],
        row["gateways"],
        f"{row['hit_rate']:.4f}",
        f"{row['lost_share']:+.1%}" + (" **!**" if row["lost_share"] > MOST_LOST else ""),
        f"{row['imbalance']:.2f}",
        f"{row['ttft_mean_s']:.2f}",
    ]
