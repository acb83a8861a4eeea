"""The doctor reads the real machine, and judges readings by stated bounds."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

from bench.doctor.command import doctor
from bench.doctor.judged import Bounds, is_quiet, judge
from bench.doctor.readings import Busy, Readings, read_machine

QUIET = Readings(
    seconds=4.0,
    cores=2,
    load_average=(0.1, 0.1, 0.1),
    stolen=0.0,
    used=0.01,
    sleep_late_p50_s=0.00006,
    sleep_late_p99_s=0.0002,
    loop_best_s=0.002,
    loop_spread=0.02,
    busy=(),
    governors=("performance",),
    memory_available=0.9,
    swap_used_bytes=0,
    swapped_pages=0,
)


def _bad(readings: Readings) -> list[str]:
    return [finding.what for finding in judge(readings) if finding.quiet is False]


def test_a_quiet_machine_is_quiet() -> None:
    assert _bad(QUIET) == []
    assert is_quiet(judge(QUIET))


@pytest.mark.parametrize(
    ("what", "readings"),
    [
        ("load average", replace(QUIET, load_average=(1.2, 0.1, 0.1))),
        ("stolen time", replace(QUIET, stolen=0.03)),
        ("CPU used by others", replace(QUIET, used=0.3)),
        ("timer", replace(QUIET, sleep_late_p99_s=0.004)),
        ("CPU loop", replace(QUIET, loop_spread=0.4)),
        ("busy processes", replace(QUIET, busy=(Busy(name="make", pid=7, cores=0.9),))),
        ("frequency governor", replace(QUIET, governors=("powersave",))),
        ("memory", replace(QUIET, memory_available=0.05)),
        ("memory", replace(QUIET, swapped_pages=300)),
    ],
)
def test_each_kind_of_noise_is_named_alone(what: str, readings: Readings) -> None:
    assert _bad(readings) == [what]
    assert not is_quiet(judge(readings))


def test_what_cannot_be_read_is_unknown_and_no_fault() -> None:
    found = judge(replace(QUIET, stolen=None, used=None, governors=None, memory_available=None))
    assert [f.what for f in found if f.quiet is None] == [
        "stolen time",
        "CPU used by others",
        "frequency governor",
        "memory",
    ]
    assert is_quiet(found)


def test_bounds_can_be_others() -> None:
    found = judge(QUIET, Bounds(loop_spread=0.01))
    assert [f.what for f in found if f.quiet is False] == ["CPU loop"]


def test_a_process_that_computes_is_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as loud:
        try:
            found = read_machine(2.0)
        finally:
            loud.kill()
    seen = {each.pid: each for each in found.busy}
    assert loud.pid in seen
    assert seen[loud.pid].cores > 0.01  # of a machine that others use too
    assert os.getpid() not in seen
    assert found.used is not None
    assert found.used > 0.05


def test_the_command_ends_with_what_it_says() -> None:
    done = CliRunner().invoke(doctor, ["--seconds", "0.5", "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == (0 if told["quiet"] else 1)
    assert len(told["findings"]) == 8
    assert told["readings"]["loop_best_s"] > 0

    done = CliRunner().invoke(doctor, ["--seconds", "0.5"])
    assert ("NOT quiet" in done.stdout) == (done.exit_code == 1)
