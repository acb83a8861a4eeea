"""The pure parts of a guarded adapter: health, clock, gate, and who served what."""

import threading

import pytest

from foreword_guard.adapter_health import AdapterHealth, AdapterState, Switch
from foreword_guard.adapter_settings import AdapterSettings
from foreword_guard.codecs import named_codec
from foreword_guard.counters import AdapterCounters
from foreword_guard.errors import CodecError, SettingError
from foreword_guard.load_gate import LoadGate
from foreword_guard.loads import LoadRecords, Run
from foreword_guard.stopwatch import Stopwatch


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> AdapterHealth:
    return AdapterHealth(retry_s=1.0, clock=clock)


def test_one_missed_deadline_ends_reading_and_leaves_storing_alone(health: AdapterHealth) -> None:
    health.reading_failed("a look-up took more than 0.3 s")

    assert (health.may_read(), health.may_store()) == (False, True)
    assert (health.state, health.reason) == (
        AdapterState.FAILING,
        "a look-up took more than 0.3 s",
    )


def test_a_full_disk_still_serves_what_it_has(health: AdapterHealth) -> None:
    health.store_failed("no space left")

    assert (health.may_read(), health.may_store()) == (True, False)
    assert health.reason == "nothing is stored: no space left"


def test_reading_begins_again_only_after_a_probe(health: AdapterHealth, clock: Clock) -> None:
    health.reading_failed("late")
    assert not health.wants_probe()
    clock.now_s += 1.5
    assert health.wants_probe()
    assert not health.may_read()

    health.can_read_again()

    assert health.may_read()
    assert health.state is AdapterState.OK


def test_a_store_is_let_through_after_the_pause_to_see(health: AdapterHealth, clock: Clock) -> None:
    health.store_failed("full")
    assert not health.may_store()
    clock.now_s += 1.5
    assert health.may_store()
    health.store_failed("still full")
    clock.now_s += 1.5
    assert not health.may_store(), "the pause is doubled"
    clock.now_s += 1.0
    assert health.may_store()


def test_an_adapter_that_answers_probes_and_not_loads_is_left_alone_for_longer(
    health: AdapterHealth, clock: Clock
) -> None:
    pauses_s = []
    for _ in range(9):
        health.reading_failed("a load took more than 0.6 s")
        failed_at_s = clock.now_s
        while not health.wants_probe():
            clock.now_s += 0.5
        pauses_s.append(clock.now_s - failed_at_s)
        health.can_read_again()

    assert pauses_s == [1, 2, 4, 8, 16, 32, 64, 64, 64]


def test_a_few_unreadable_loads_are_the_files_fault_and_a_row_of_them_the_disks(
    health: AdapterHealth,
) -> None:
    for _ in range(2):
        health.read_nothing("unreadable")
    assert health.may_read()
    health.read_well()
    for _ in range(3):
        health.read_nothing("unreadable")
    assert not health.may_read()


def test_what_is_switched_off_is_not_read_and_still_stored_into(health: AdapterHealth) -> None:
    health.set_switch(Switch(enabled=False, reason="slower than recomputing"))

    assert (health.may_read(), health.may_store(), health.wants_probe()) == (False, True, False)
    assert (health.state, health.reason) == (AdapterState.OFF, "slower than recomputing")


def test_time_in_which_nobody_looked_is_not_held_against_the_adapter(clock: Clock) -> None:
    watch = Stopwatch(clock)
    clock.now_s += 5
    assert watch.waited_s() == pytest.approx(0.1)
    clock.now_s += 0.05
    assert watch.waited_s() == pytest.approx(0.15)
    assert watch.elapsed_s == pytest.approx(5.05)


def test_a_closed_gate_has_exactly_what_was_written_and_takes_no_more() -> None:
    gate = LoadGate()
    assert gate.write(0, lambda: True)
    assert gate.write(1, lambda: False)
    assert gate.write(2, lambda: True)

    assert gate.close() == (0, 2)
    assert not gate.write(3, lambda: pytest.fail("written after the end"))
    assert gate.close() == (0, 2)


def test_closing_waits_for_the_chunk_that_is_being_written() -> None:
    gate, begun, go_on = LoadGate(), threading.Event(), threading.Event()

    def slow() -> bool:
        begun.set()
        return go_on.wait(60)

    writer = threading.Thread(target=gate.write, args=(0, slow))
    writer.start()
    begun.wait(30)
    closed: list[tuple[int, ...]] = []
    closer = threading.Thread(target=lambda: closed.append(gate.close()))
    closer.start()
    closer.join(0.05)
    assert closer.is_alive()
    go_on.set()
    closer.join(30)
    writer.join(30)
    assert closed == [(0,)]


def test_a_load_is_told_apart_by_tier_and_without_what_the_engine_held() -> None:
    records = LoadRecords()
    records.found("r", ["ram", "ram", "ssd", "redis"])
    records.loaded("r", 1, 4)

    assert records.runs("r", chunk_tokens=64) == [
        Run(tier="ram", start=64, stop=128),
        Run(tier="ssd", start=128, stop=192),
        Run(tier="redis", start=192, stop=256),
    ]
    held = records.runs("r", chunk_tokens=64, held_tokens=144)
    assert held == [
        Run(tier="ssd", start=144, stop=192),
        Run(tier="redis", start=192, stop=256),
    ]


def test_nothing_is_known_of_a_request_that_only_looked_up_or_never_did() -> None:
    records = LoadRecords()
    records.found("looked", ["ram"])
    records.loaded("never", 0, 1)

    assert records.runs("looked", chunk_tokens=64) is None
    assert records.runs("never", chunk_tokens=64) is None


def test_a_load_beyond_what_the_look_up_found_is_not_explained() -> None:
    records = LoadRecords()
    records.found("r", ["ram"])
    records.loaded("r", 0, 2)

    assert records.runs("r", chunk_tokens=64) is None


def test_an_interrupted_request_keeps_its_first_load_and_a_new_one_begins_anew() -> None:
    records = LoadRecords()
    records.found("r", ["ssd"])
    records.loaded("r", 0, 1)
    records.found("r", ["ram", "ram"])
    records.loaded("r", 0, 2)
    first = records.runs("r", chunk_tokens=64)
    records.ended("r")
    assert records.runs("r", chunk_tokens=64) == first
    records.found("r", ["ram", "ram"])
    assert records.runs("r", chunk_tokens=64) is None

    assert first == [Run(tier="ssd", start=0, stop=64)]


def test_only_the_newest_requests_are_remembered() -> None:
    records = LoadRecords(limit=2)
    for name in "abc":
        records.found(name, ["ram"])
        records.loaded(name, 0, 1)

    known = [records.runs(name, chunk_tokens=64) is not None for name in "abc"]
    assert known == [False, True, True]


def test_the_deadlines_come_from_the_environment() -> None:
    environment = {"FOREWORD_ADAPTER_LOOKUP_S": "0.15", "FOREWORD_ADAPTER_LOAD_S": "2"}

    assert AdapterSettings.from_environment(environment) == AdapterSettings(
        lookup_s=0.15, load_s=2.0, retry_s=1.0
    )
    with pytest.raises(SettingError, match="FOREWORD_ADAPTER_LOAD_S"):
        AdapterSettings.from_environment({"FOREWORD_ADAPTER_LOAD_S": "0"})


@pytest.mark.parametrize(
    "options",
    [
        {"inner": "zip"},
        {"inner": "turboquant_k8v4"},
        {"inner": "turboquant_k8v4", "head_dim": 48},
        {"inner": "turboquant_4bit_nc", "head_dim": "64"},
    ],
)
def test_a_codec_that_cant_be_made_is_refused_by_name(options: dict[str, object]) -> None:
    with pytest.raises(CodecError, match=str(options["inner"])):
        named_codec(options)


def test_a_late_load_counts_with_its_time_though_it_served_nothing() -> None:
    counters = AdapterCounters()
    counters.load(0.6, chunks=0, size_bytes=0, failed=4, late=True)
    counters.load(0.001, chunks=0, size_bytes=0, failed=4)
    counters.load_refused(4)

    loads = counters.snapshot()["loads"]
    assert loads == {"tasks": 2, "chunks": 0, "bytes": 0, "seconds": 0.6, "failed": 12, "late": 1}


def test_a_salt_without_a_key_is_told_and_stops_no_other_salts_stores(
    health: AdapterHealth,
) -> None:
    assert health.sealing_failed("the key disk is full")
    assert not health.sealing_failed("the key disk is full")
    assert health.may_store()
    assert health.may_read()
    assert (health.state, health.reason) == (
        AdapterState.FAILING,
        "not all is stored: the key disk is full",
    )

    health.sealed_well()
    assert (health.state, health.reason) == (AdapterState.OK, None)
