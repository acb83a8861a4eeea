"""Fuzz one target, guided by coverage.

`python -m tests.fuzz.run_atheris TARGET [SECONDS] [FOLDER]`

Needs the package `atheris`, which is no dependency of the tests. Inputs that reach something new
are kept in FOLDER; one that fails is written there as `crash-…` and ends the run.
"""

import sys
from pathlib import Path

import atheris

# What the targets run; all that they import would take minutes to instrument.
_READERS = [
    "app.completions.body",
    "app.fleet.addresses",
    "app.json_guard",
    "app.responses",
    "app.routes.bodies",
    "app.sampling_limits",
    "app.schemas",
    "app.sse",
    "app.tracing",
    "app.wire",
    "cache.engine_loads",
    "cache.engine_metrics",
    "cache.kv_events",
    "opentelemetry.trace.propagation.tracecontext",
    "opentelemetry.trace.span",
    "prompts.plain_values",
    "python_multipart",
    "retrieval.filters",
    "starlette.formparsers",
]

with atheris.instrument_imports(include=_READERS):
    from tests.fuzz.targets import TARGETS, survives


def main() -> None:
    """Run for some seconds, a minute by default."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"name one of {', '.join(TARGETS)}")
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    folder = Path(sys.argv[3] if len(sys.argv) > 3 else f".foreword/fuzz/{name}")
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(TARGETS[name][1]):
        (folder / f"seed-{number}").write_bytes(seed)
    options = ["-max_len=4096", f"-max_total_time={seconds}", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], str(folder), *options], lambda data: survives(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
