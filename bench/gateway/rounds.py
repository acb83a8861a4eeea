"""Interleaved rounds: every gateway under every load, again and again."""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.errors import GatewayBenchError
from bench.gateway.bodies import write_bodies
from bench.gateway.measure import (
    MODEL,
    Load,
    Target,
    Tools,
    ask,
    build_tools,
    encoding_us,
    running_gateway,
    running_upstream,
    used,
)
from bench.gateway.peers import Peer

DIRECT = "direct"
_QUARTER = 0.25
_WARM_S, _LONGEST_S = 2.0, 40.0
_BODY_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured; windows are longer for a gateway that takes long to answer."""

    rounds: int
    seconds: float
    chunks: int = 50
    gap_ms: int = 10
    connections: int = 8
    crowd: int = 1000


def measure(
    chosen: Sequence[Peer],
    plan: Plan,
    folder: Path,
    say: Callable[[str], None],
    keep: Callable[[dict[str, Any]], None],
) -> None:
    """All rounds; `keep` gets the raw figures so far after each one, so that none is lost.

    Raises:
        GatewayBenchError: something doesn't start, or answers wrongly.
    """
    tools = build_tools(folder, chunks=plan.chunks)
    samples: list[dict[str, Any]] = []
    raw = {
        "plan": {**asdict(plan), "body_bytes": _BODY_BYTES},
        "peers": {peer.name: {"version": peer.version, "does": peer.does} for peer in chosen},
        "samples": samples,
        "encoding_us": (encoding := []),
    }
    for stage, gap_ms in (("quick", 0), ("paced", plan.gap_ms)):
        with ExitStack() as stack:
            where = folder / stage
            upstream = stack.enter_context(running_upstream(tools, where, gap_ms=gap_ms))
            targets = {DIRECT: Target(pid=os.getpid(), port=upstream)}
            for peer in chosen:
                say(f"starting {peer.name}")
                gateway = running_gateway(peer, where / peer.name, upstream)
                targets[peer.name] = stack.enter_context(gateway)
            loads = _loads(plan, folder, stage)
            windows = {load.name: _warm(tools, targets, load, say) for load in loads}
            for number in range(plan.rounds):
                if stage == "quick":
                    bodies = loads[0].bodies
                    encoding.append(encoding_us(where / MODEL, bodies, plan.seconds / 2))
                    say(f"round {number + 1}: {encoding[-1]:.0f} µs encode the new text")
                for load in loads:
                    for name, seconds in windows[load.name].items():
                        of = replace(load, seconds=seconds)
                        samples.append(_sample(tools, targets, name, of, number, say))
                keep(raw)
            if stage == "quick":
                samples += _quarter(tools, targets, loads[0], samples, plan, say)
                keep(raw)


def _loads(plan: Plan, folder: Path, stage: str) -> list[Load]:
    whole, parts = folder / "whole.bodies", folder / "stream.bodies"
    write_bodies(whole, body_bytes=_BODY_BYTES, stream=False)
    write_bodies(parts, body_bytes=_BODY_BYTES, stream=True)
    if stage == "paced":
        return [
            Load(name="paced", bodies=parts, connections=64, seconds=plan.seconds, stream=True),
            Load(name="crowd", bodies=parts, connections=plan.crowd, seconds=plan.seconds,
                 stream=True),
        ]  # fmt: skip
    many, seconds = plan.connections, plan.seconds
    return [
        Load(name="json", bodies=whole, connections=many, seconds=seconds),
        Load(name="stream", bodies=parts, connections=many, seconds=seconds, stream=True),
        Load(name="json-alone", bodies=whole, connections=1, seconds=seconds),
        Load(name="stream-alone", bodies=parts, connections=1, seconds=seconds, stream=True),
    ]


def _warm(
    tools: Tools, targets: Mapping[str, Target], load: Load, say: Callable[[str], None]
) -> dict[str, float]:
    """Not counted; a gateway that answers wrongly is found out here.

    Returns each one's window: ten times as long as it takes to answer, within bounds.

    Raises:
        GatewayBenchError: it answers, and nothing is right.
    """
    windows: dict[str, float] = {}
    for name, target in targets.items():
        told = ask(tools, target, replace(load, seconds=_WARM_S))
        mean_s = told["total"]["mean_us"] / 1e6 if "total" in told else _LONGEST_S
        windows[name] = min(_LONGEST_S, max(load.seconds, 10 * mean_s))
        say(f"{load.name}: {name} warm, {told['answered']} answered, {told['wrong']} wrong")
        if told["wrong"] and not told["answered"]:
            raise GatewayBenchError(name, f"answers nothing right: {told.get('first_wrong')}")
    return windows


def _sample(
    tools: Tools,
    targets: Mapping[str, Target],
    name: str,
    load: Load,
    number: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    target = targets[name]
    before, steal = used(target.pid), _stolen_s()
    told = ask(tools, target, load)
    after = used(target.pid)
    answered = told["answered"]
    cpu_us = (after.cpu_s - before.cpu_s) / answered * 1e6 if answered else None
    sample = {
        "load": load.name,
        "round": number,
        "gateway": name,
        "cpu_us": None if name == DIRECT else cpu_us,
        "rss_mb": None if name == DIRECT else after.rss_mb,
        "load_average": os.getloadavg()[0],
        "stolen_s": _stolen_s() - steal,
        "rate": load.rate,
        **told,
    }
    cpu = "" if sample["cpu_us"] is None else f", {sample['cpu_us']:.0f} µs CPU each"
    say(f"{load.name} round {number + 1}: {name} {answered / told['seconds']:.0f}/s{cpu}")
    return sample


def _quarter(
    tools: Tools,
    targets: Mapping[str, Target],
    load: Load,
    samples: list[dict[str, Any]],
    plan: Plan,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Each at a quarter of its own full rate, and beside it the engine itself at the same rate."""
    found: list[dict[str, Any]] = []
    for number in range(plan.rounds):
        for name in targets:
            if name == DIRECT:
                continue
            full = [s for s in samples if s["load"] == load.name and s["gateway"] == name]
            rate = _QUARTER * statistics.median(s["answered"] / s["seconds"] for s in full)
            at = Load(name=f"quarter-{name}", bodies=load.bodies, connections=64,
                      seconds=plan.seconds, rate=max(rate, 1.0))  # fmt: skip
            pair = (DIRECT, name) if number % 2 else (name, DIRECT)
            found += [_sample(tools, targets, one, at, number, say) for one in pair]
            time.sleep(0.05)
    return found


def _stolen_s() -> float:
    """Seconds that neighbours took from this machine's processors."""
    first = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(first[8]) / os.sysconf("SC_CLK_TCK")
