"""The breaker's promises, for any order of events."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from foreword_guard.breaker import Breaker, BreakerState

RETRY_S = 5.0


def test_opens_at_the_failure_that_reaches_the_limit() -> None:
    breaker = Breaker(failures=3, retry_s=RETRY_S, clock=lambda: 0.0)

    assert [breaker.failed("late") for _ in range(4)] == [False, False, True, False]
    assert breaker.status.state is BreakerState.OPEN
    assert breaker.status.reason == "late"


def test_a_success_between_failures_keeps_it_closed() -> None:
    breaker = Breaker(failures=2, retry_s=RETRY_S, clock=lambda: 0.0)

    for _ in range(10):
        breaker.failed("late")
        breaker.succeeded()

    assert breaker.closed


def test_a_tier_that_keeps_failing_is_left_alone_for_longer_each_time() -> None:
    now = [0.0]
    breaker = Breaker(failures=1, retry_s=RETRY_S, clock=lambda: now[0])
    pauses = []

    for _ in range(6):
        breaker.failed("late")
        opened = now[0]
        while not breaker.may_close():
            now[0] += RETRY_S
        pauses.append(now[0] - opened)
        breaker.close()

    assert pauses == [5.0, 10.0, 20.0, 40.0, 40.0, 40.0]


def test_a_success_ends_the_longer_pauses() -> None:
    now = [0.0]
    breaker = Breaker(failures=1, retry_s=RETRY_S, clock=lambda: now[0])
    for _ in range(3):
        breaker.failed("late")
        breaker.close()

    breaker.succeeded()
    breaker.failed("late")
    now[0] += RETRY_S

    assert breaker.may_close()


class BreakerMachine(RuleBasedStateMachine):
    """Against a model that only remembers when it was opened last."""

    @initialize(failures=st.integers(1, 4))
    def make(self, failures: int) -> None:
        self.now = 0.0
        self.failures = failures
        self.breaker = Breaker(failures=failures, retry_s=RETRY_S, clock=lambda: self.now)
        self.opened_at: float | None = None
        self.in_a_row = 0

    @rule(step=st.floats(0, 60))
    def wait(self, step: float) -> None:
        self.now += step

    @rule()
    def fail(self) -> None:
        opened = self.breaker.failed("late")
        if self.opened_at is None:
            self.in_a_row += 1
            assert opened == (self.in_a_row == self.failures)
        if opened:
            self.opened_at = self.now

    @rule()
    def succeed(self) -> None:
        self.breaker.succeeded()
        if self.opened_at is None:
            self.in_a_row = 0

    @rule()
    def trip(self) -> None:
        if self.breaker.trip("restarted"):
            assert self.opened_at is None
            self.opened_at = self.now

    @rule()
    def close(self) -> None:
        if self.breaker.may_close():
            self.breaker.close()
            self.opened_at = None
            self.in_a_row = 0

    @invariant()
    def is_open_exactly_when_the_model_is(self) -> None:
        if hasattr(self, "breaker"):
            assert self.breaker.closed == (self.opened_at is None)

    @invariant()
    def never_closes_before_the_pause(self) -> None:
        if hasattr(self, "breaker") and self.breaker.may_close():
            assert self.opened_at is not None
            assert self.now - self.opened_at >= RETRY_S


BreakerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBreakerMachine = BreakerMachine.TestCase
