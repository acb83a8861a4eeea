"""A simulated SGLang: its HTTP protocol and KV events over a real radix tree and a stated clock.

It serves for faults, load and scale, where a real engine would be slow or can't be made to fail.
What it says about re-use follows the engine's own rules, and one contract suite runs against both;
what it says about time is stated in its settings and worth nothing. Every answer it gives is
marked as simulated (`Server` header, `engine` in `/server_info`).

    python -m bench.engine_sim --model-path FOLDER --port 30000

The pure part is radix, tier, pool, scheduler, clock (costs), language and wire; engine, events,
connection, the routes and server are its rim.
"""

from bench.engine_sim.config import (
    CallConfig,
    ClockConfig,
    EventsConfig,
    EvictionPolicy,
    SimulatorConfig,
    TierConfig,
)
from bench.engine_sim.server import SimulatorThread

__all__ = [
    "CallConfig",
    "ClockConfig",
    "EventsConfig",
    "EvictionPolicy",
    "SimulatorConfig",
    "SimulatorThread",
    "TierConfig",
]
