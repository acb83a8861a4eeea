"""A service kept running: ready, restarted with back-off, given up, stopped."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.stack import health, logs
from app.stack.backoff import NEVER_RESTART, RestartPolicy
from app.stack.errors import ProcessGaveUpError, ProcessStartError
from app.stack.keeper import Keeper, Service, State
from app.stack.ports import LOOPBACK, free_ports
from app.stack.supervisor import Supervisor
from tests.app.stack.children import SERVER, eventually, is_alive, python, spec

QUICK = RestartPolicy(first_s=0.1, longest_s=0.2, attempts=3, settled_after_s=60.0)


class Bench:
    """Makes services on free ports and keeps what they say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.supervisors: list[Supervisor] = []

    def server(self, name: str, *, restart: RestartPolicy = QUICK, **options: object) -> Service:
        """A small HTTP server that notes in ``stopped`` when it is stopped in order."""
        port = free_ports(1)[0]
        argv = python(SERVER, str(port), str(self.folder / "stopped"), name)
        return self.service(
            name,
            argv,
            ready=lambda: health.get(f"http://{LOOPBACK}:{port}/", timeout_s=10.0).good,
            restart=restart,
            **options,
        )

    def service(
        self,
        name: str,
        argv: tuple[str, ...],
        *,
        ready: Callable[[], bool],
        restart: RestartPolicy = QUICK,
        ready_within_s: float = 60.0,
        essential: bool = True,
        beside: bool = False,
        kind: str = "",
    ) -> Service:
        return Service(
            name=name,
            spec=spec(argv, self.folder),
            ready=ready,
            ready_within_s=ready_within_s,
            usually="a moment",
            log=self.folder / f"{name}.log",
            restart=restart,
            essential=essential,
            beside=beside,
            kind=kind,
        )

    def supervise(self, *services: Service) -> Supervisor:
        supervisor = Supervisor(services, say=self.lines.append, on_change=lambda: None)
        self.supervisors.append(supervisor)
        return supervisor


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for supervisor in bench.supervisors:
        supervisor.kill()


def pid_of(keeper: Keeper) -> int:
    assert keeper.pid is not None
    return keeper.pid


def test_services_start_in_order_and_stop_in_the_opposite_one(bench: Bench) -> None:
    supervisor = bench.supervise(*(bench.server(name) for name in ("tier", "engine", "gateway")))
    supervisor.start()
    pids = [pid_of(keeper) for keeper in supervisor.keepers.values()]
    supervisor.stop()
    assert [line.split(":")[0] for line in bench.lines if "ready after" in line] == [
        "tier",
        "engine",
        "gateway",
    ]
    stopped = (bench.folder / "stopped").read_text().splitlines()
    assert stopped == ["gateway stopped", "engine stopped", "tier stopped"]
    assert not any(is_alive(pid) for pid in pids)


def test_one_that_waits_itself_starts_beside_the_one_before(bench: Bench) -> None:
    """Here the tier is ready only once the engine runs; the gateway waits for both."""
    supervisor = bench.supervise(
        bench.service(
            "tier",
            python("import time; time.sleep(600)"),
            ready=lambda: supervisor.keepers["engine"].pid is not None,
        ),
        bench.server("engine", beside=True),
        bench.server("gateway"),
    )
    supervisor.start()
    told = [line.split(" (")[0].split(" after")[0] for line in bench.lines]
    assert told == [
        "tier: starting",
        "engine: starting",
        "tier: ready",
        "engine: ready",
        "gateway: starting",
        "gateway: ready",
    ]


def test_one_started_beside_another_that_fails_is_ended(bench: Bench) -> None:
    pids: list[int] = []

    def never_ready() -> bool:
        pids.append(pid_of(supervisor.keepers["engine"]))
        return False

    sleeper = python("import time; time.sleep(600)")
    tier = bench.service("tier", sleeper, ready=never_ready, ready_within_s=0.5)
    supervisor = bench.supervise(tier, bench.server("engine", beside=True))
    with pytest.raises(ProcessStartError, match="was not ready within"):
        supervisor.start()
    assert pids
    assert not any(is_alive(pid) for pid in pids)


def test_a_killed_process_is_started_again(bench: Bench) -> None:
    supervisor = bench.supervise(bench.server("engine"))
    supervisor.start()
    keeper = supervisor.keepers["engine"]
    first = pid_of(keeper)
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: keeper.restarts == 1 and keeper.state is State.READY)
    assert pid_of(keeper) != first
    assert "engine: was killed by signal 9 unexpectedly" in bench.lines


def test_a_killed_leash_counts_as_the_end_of_its_process(bench: Bench) -> None:
    supervisor = bench.supervise(bench.server("engine"))
    supervisor.start()
    keeper = supervisor.keepers["engine"]
    first = pid_of(keeper)
    assert keeper.leash_pid is not None
    os.kill(keeper.leash_pid, signal.SIGKILL)
    assert eventually(lambda: keeper.restarts == 1 and keeper.state is State.READY)
    assert not is_alive(first)


def test_a_process_that_keeps_ending_is_given_up(bench: Bench) -> None:
    """After the policy's attempts; the last line says where to look."""
    once = bench.folder / "once"
    code = """
    import pathlib, sys, time
    once = pathlib.Path(sys.argv[1])
    if once.exists():
        sys.exit("tiny: out of order")
    once.touch()
    time.sleep(0.5)
    """
    service = bench.service("engine", python(code, str(once)), ready=once.exists)
    supervisor = bench.supervise(service)
    supervisor.start()
    failure = supervisor.wait_for_failure(90.0)
    assert isinstance(failure, ProcessGaveUpError)
    assert failure.attempts == QUICK.attempts
    assert str(service.log) in str(failure)
    assert supervisor.keepers["engine"].state is State.FAILED


def test_the_loss_of_a_tier_is_no_failure_of_the_stack(bench: Bench) -> None:
    service = bench.server("tier", restart=NEVER_RESTART, essential=False)
    supervisor = bench.supervise(service)
    supervisor.start()
    os.kill(pid_of(supervisor.keepers["tier"]), signal.SIGKILL)
    assert eventually(lambda: supervisor.keepers["tier"].state is State.FAILED)
    assert supervisor.wait_for_failure(0.2) is None


def test_only_the_loss_of_all_of_a_kind_is_a_failure_of_the_stack(bench: Bench) -> None:
    names = ("engine-0", "engine-1")
    services = [bench.server(name, restart=NEVER_RESTART, kind="engines") for name in names]
    supervisor = bench.supervise(*services)
    supervisor.start()
    first, second = supervisor.keepers.values()
    os.kill(pid_of(first), signal.SIGKILL)
    assert eventually(lambda: first.state is State.FAILED)
    assert supervisor.wait_for_failure(0.2) is None
    assert second.state is State.READY
    os.kill(pid_of(second), signal.SIGKILL)
    assert supervisor.wait_for_failure(90.0) is first.failure


def test_a_start_that_ends_shows_the_last_lines_of_its_log(bench: Bench) -> None:
    broken = bench.service(
        "gateway", python("import sys; sys.exit('tiny: bad luck')"), ready=lambda: False
    )
    supervisor = bench.supervise(bench.server("engine"), broken)
    with pytest.raises(ProcessStartError, match="ended with status 1") as caught:
        supervisor.start()
    assert caught.value.last_lines == ("tiny: bad luck",)
    assert "| tiny: bad luck" in str(caught.value)
    assert (bench.folder / "stopped").read_text() == "engine stopped\n"


def test_a_process_that_never_gets_ready_is_stopped(bench: Bench) -> None:
    service = bench.service(
        "engine", python("import time; time.sleep(600)"), ready=lambda: False, ready_within_s=0.5
    )
    supervisor = bench.supervise(service)
    with pytest.raises(ProcessStartError, match="was not ready within"):
        supervisor.start()
    assert supervisor.keepers["engine"].pid is None


def test_a_missing_program_is_named(bench: Bench) -> None:
    supervisor = bench.supervise(bench.service("engine", ("/no/such/python",), ready=lambda: False))
    with pytest.raises(ProcessStartError, match="/no/such/python: No such file"):
        supervisor.start()


def test_stop_during_the_back_off_does_not_wait_for_it(bench: Bench) -> None:
    slow = RestartPolicy(first_s=300.0, longest_s=300.0)
    supervisor = bench.supervise(bench.server("engine", restart=slow))
    supervisor.start()
    keeper = supervisor.keepers["engine"]
    os.kill(pid_of(keeper), signal.SIGKILL)
    assert eventually(lambda: keeper.state is State.WAITING)
    began = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - began < 60.0


def test_a_stopped_service_can_be_started_again(bench: Bench) -> None:
    supervisor = bench.supervise(bench.server("tier"))
    supervisor.start()
    keeper = supervisor.keepers["tier"]
    keeper.stop()
    assert (keeper.pid, keeper.state) == (None, State.STOPPED)
    keeper.start()
    assert keeper.state is State.READY
    os.kill(pid_of(keeper), signal.SIGKILL)
    assert eventually(lambda: keeper.restarts == 1 and keeper.state is State.READY)


def test_the_log_of_the_run_before_is_kept(bench: Bench) -> None:
    service = bench.server("engine")
    service.log.write_text("the run before\n")
    supervisor = bench.supervise(service)
    supervisor.start()
    assert service.log.read_text() == "listening\n"
    assert logs.previous(service.log).read_text() == "the run before\n"


def test_a_log_too_large_is_put_aside_under_its_writer(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with logs.open_for_append(log) as writer:
        writer.write(b"x" * 100)
        assert not logs.shorten(log, largest_bytes=100)
        assert logs.shorten(log, largest_bytes=99)
        writer.write(b"on\n")
    assert log.read_bytes() == b"on\n"
    assert logs.previous(log).read_bytes() == b"x" * 100


@pytest.mark.parametrize(
    ("restarts", "delay_s"), [(0, 1.0), (1, 2.0), (4, 16.0), (5, 30.0), (9, 30.0), (10, None)]
)
def test_delays_double_up_to_the_longest(restarts: int, delay_s: float | None) -> None:
    assert RestartPolicy(attempts=10).delay_s(restarts) == delay_s


def test_a_process_that_ran_long_enough_starts_a_new_row() -> None:
    policy = RestartPolicy(settled_after_s=120.0)
    assert policy.row(4, ready_for_s=119.0) == 4
    assert policy.row(4, ready_for_s=120.0) == 0
