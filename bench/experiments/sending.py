"""An experiment's run, made by the load generator; no path of this machine is left in it."""

import signal
from collections.abc import Mapping
from typing import Any

import msgspec

from bench.experiments.run import Sending
from bench.load.run import Plan, run_plan
from bench.load.validity import Bounds
from bench.run_folder import EngineFacts, read_facts, write_facts
from bench.workloads import read_workload


def send(sending: Sending) -> None:
    """Make the run's folder.

    Raises:
        BenchError: the target is at fault.
    """
    on_term = signal.getsignal(signal.SIGTERM)
    run_plan(
        Plan(
            url=sending.target.url,
            folder=sending.folder,
            workload=read_workload(sending.workload),
            load=sending.load,
            model="default",
            bounds=Bounds(max_lag_s=sending.max_lag_s),
            command=sending.command,
        )
    )
    signal.signal(signal.SIGTERM, on_term)  # the generator took it away
    facts = read_facts(sending.folder)
    engine = facts.engine
    if engine is not None:
        engine = EngineFacts(flags=_told(engine.flags), memory=_told(engine.memory))
    facts = msgspec.structs.replace(
        facts, target=sending.target, model=sending.model, engine=engine
    )
    write_facts(sending.folder, facts)


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    """What can be told anywhere: no paths and addresses, which are another each time."""
    return {name: value for name, value in values.items() if not _is_place(value)}


def _is_place(value: Any) -> bool:
    return isinstance(value, str) and ("/" in value or "127.0.0.1" in value)
