"""What gateway, engine, guard and tier server export, by name: from themselves, or a real page."""

import os
import re
import subprocess
import sys
from pathlib import Path

from app.levels import LEVELS
from app.metrics import Metrics
from app.series import Histogram

ROOT = Path(__file__).parents[3]
_CAPTURED = ROOT / "tests/cache/captured"
_GUARD = """
from prometheus_client import CollectorRegistry, generate_latest
from foreword_guard.gauges import TierGauges
gauges = TierGauges()
gauges.show(is_open=False, failures_total=2, held_loads=0)
gauges.registered()
print(generate_latest().decode())
"""
_NAME = re.compile(r"\b(?:foreword_|sglang:|lmcache_mp_|process_)[a-zA-Z0-9_:]+|\bup\b")
_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)[{ ]", re.MULTILINE)


def engine_page() -> str:
    """A real SGLang's metrics, and those that the guard adds to them in its process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "deploy/engine-guard/src")}
    command = [sys.executable, "-c", _GUARD]
    guard = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    own = "".join(
        line for line in guard.stdout.splitlines(keepends=True) if "foreword_tier_" in line
    )
    return (_CAPTURED / "sglang_after.prom").read_text() + own


def tier_page() -> str:
    """A real LMCache server's metrics."""
    return (_CAPTURED / "lmcache_after.prom").read_text()


def gateway_names() -> set[str]:
    """Every series name that a gateway can export."""
    names = {gauge.name for gauge in LEVELS} | {"foreword_in_flight_requests"}
    for family in Metrics().families:
        names |= (
            {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
            if isinstance(family, Histogram)
            else {family.name}
        )
    return names


def names_in_page(page: str) -> set[str]:
    """The series names of a page in Prometheus's text format."""
    return set(_SAMPLE.findall(page))


def names_in_query(query: str) -> set[str]:
    """The series names that a PromQL expression asks for."""
    return set(_NAME.findall(query))
