"""The simulated engine that most tests are content with."""

from pathlib import Path

from bench.engine_sim import ClockConfig, EventsConfig, SimulatorConfig


def usual_config(model: Path, *, speedup: float) -> SimulatorConfig:
    """With labels of its metrics, and KV events that can be asked for again."""
    return SimulatorConfig(
        model_path=model,
        labels=("template", "tenant"),
        clock=ClockConfig(speedup=speedup),
        events=EventsConfig(replay_endpoint="tcp://127.0.0.1:0", topic="kv"),
    )
