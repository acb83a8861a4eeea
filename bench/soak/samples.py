"""What is noted after each stretch of a soak, while no request is under way."""

from dataclasses import asdict, dataclass
from pathlib import Path

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The gateway after `requests` requests of its life; None: not known.

    Attributes:
        life: which start of the gateway; a soak that is taken up again begins another.
        requests: requests to the gateway in this life, probes included.
        overall: requests of all lives together.
        cpu_us: CPU of the gateway's process for one request of this stretch, in microseconds.
        ttft_ms, e2e_ms: (median, 99th percentile) under load, seen by the client.
        added_ms: the same of one request at a time through the gateway, less the median of the
            same request sent to the simulator itself.
        ledger_kb: the database file and its write-ahead log.
        simulator_kb: the simulator's resident memory, to tell its growth from the gateway's.
    """

    life: int
    requests: int
    overall: int
    elapsed_s: float
    requests_per_s: float
    rss_kb: int
    anonymous_kb: int
    threads: int
    descriptors: int
    cpu_us: float
    ttft_ms: tuple[float | None, float | None]
    e2e_ms: tuple[float | None, float | None]
    added_ms: tuple[float | None, float | None]
    in_flight: float
    index_pages: float
    accounting_errors: float
    ledger_dropped: float
    event_batches: float
    event_gaps: float
    ledger_rows: int
    rollup_rows: int
    ledger_kb: int
    simulator_kb: int
    load_average: float
    statuses: dict[str, int]


def append_sample(file: Path, sample: Sample) -> None:
    with file.open("ab") as stream:
        stream.write(orjson.dumps(asdict(sample)) + b"\n")


def read_samples(file: Path) -> list[Sample]:
    """All samples of a soak; a last line that was cut off by a crash is left out."""
    if not file.exists():
        return []
    samples = []
    for line in file.read_bytes().splitlines():
        try:
            samples.append(sample_of(orjson.loads(line)))
        except orjson.JSONDecodeError:
            break
    return samples


def sample_of(fields: dict[str, object]) -> Sample:
    """A sample from its JSON object."""
    for name in ("ttft_ms", "e2e_ms", "added_ms"):
        pair = fields[name]
        assert isinstance(pair, list)
        fields[name] = tuple(pair)
    return Sample(**fields)  # type: ignore[arg-type]


def metric(text: str, name: str) -> float:
    """The sum of one metric over its labels in Prometheus's text format; 0 of none."""
    found = 0.0
    for line in text.splitlines():
        if line.startswith((f"{name} ", f"{name}{{")):
            found += float(line.rpartition(" ")[2])
    return found
