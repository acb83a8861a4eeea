"""The time to the first token, learned from requests."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.modes.ttft import Sample, TtftLearner, TtftModel, fit

TRUTH = TtftModel(fixed_s=0.05, per_token_s=1 / 800, per_pair_s=1 / 800 / 3000, per_cached_s=4e-6)


def sample(rng: random.Random, computed: int, cached: int, *, noise: float = 0.05) -> Sample:
    seconds = TRUTH.seconds(computed, cached) * rng.lognormvariate(0, noise)
    return Sample(computed=computed, cached=cached, seconds=seconds)


def mixture(rng: random.Random, count: int) -> list[Sample]:
    """Questions of RAG, of warm and of cold corpora."""
    kinds = [(1100, 64), (45, 6000), (6000, 64), (300, 2000), (60, 64)]
    return [
        sample(rng, int(n * rng.uniform(0.7, 1.3)), int(c * rng.uniform(0.7, 1.3)))
        for n, c in (kinds[index % len(kinds)] for index in range(count))
    ]


@pytest.mark.parametrize("seed", range(5))
def test_twenty_requests_tell_the_time_within_a_tenth(seed: int) -> None:
    learner = TtftLearner()
    for each in mixture(random.Random(seed), 20):
        learner.learn(each)
    for computed, cached in [(1000, 64), (50, 5000), (5000, 64), (500, 4000)]:
        expected = TRUTH.seconds(computed, cached)
        assert learner.model.seconds(computed, cached) == pytest.approx(expected, rel=0.1)


def test_disturbed_requests_pull_little() -> None:
    rng = random.Random(3)
    learner = TtftLearner()
    for index, each in enumerate(mixture(rng, 40)):
        queued = each.seconds + 3.0 if index % 5 == 0 else each.seconds
        learner.learn(Sample(computed=each.computed, cached=each.cached, seconds=queued))
    for computed, cached in [(1000, 64), (50, 5000), (5000, 64)]:
        expected = TRUTH.seconds(computed, cached)
        assert learner.model.seconds(computed, cached) == pytest.approx(expected, rel=0.25)


def test_requests_that_ran_beside_others_count_less() -> None:
    alone = [Sample(computed=1000, cached=0, seconds=1.0) for _ in range(4)]
    beside = [Sample(computed=1000, cached=0, seconds=2.0, others=9) for _ in range(4)]
    assert fit([*alone, *beside], TtftModel()).seconds(1000, 0) == pytest.approx(1.0, rel=0.1)


def test_without_requests_the_measured_speed_is_believed() -> None:
    learner = TtftLearner()
    learner.expect_speed(500.0)
    assert learner.model.per_token_s == pytest.approx(1 / 500)


def test_many_short_requests_do_not_make_long_ones_forgotten() -> None:
    rng = random.Random(5)
    learner = TtftLearner()
    for each in mixture(rng, 20):
        learner.learn(each)
    for _ in range(2000):
        learner.learn(sample(rng, 40, 64))
    assert learner.model.seconds(6000, 64) == pytest.approx(TRUTH.seconds(6000, 64), rel=0.1)
    assert learner.samples < 300


def test_another_engine_is_learned_anew() -> None:
    learner = TtftLearner()
    learner.learn(Sample(computed=100, cached=0, seconds=9.0))
    learner.forget()
    assert learner.model == TtftModel()


def test_what_can_not_be_is_not_learned() -> None:
    learner = TtftLearner()
    learner.learn(Sample(computed=100, cached=0, seconds=-0.1))
    learner.learn(Sample(computed=0, cached=10, seconds=1.0))
    assert learner.samples == 0


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.builds(
            Sample,
            computed=st.integers(1, 20_000),
            cached=st.integers(0, 20_000),
            seconds=st.floats(1e-4, 1e4),
            others=st.integers(0, 50),
        ),
        max_size=30,
    )
)
def test_no_requests_make_a_time_negative_or_falling(samples: list[Sample]) -> None:
    model = fit(samples, TtftModel())
    assert min(model.fixed_s, model.per_token_s, model.per_pair_s, model.per_cached_s) >= 0
    assert model.seconds(100, 10) <= model.seconds(200, 10)
    assert model.seconds(100, 10) <= model.seconds(100, 20)


def test_a_fit_takes_little_time() -> None:
    """Decisions wait for it."""
    rng = random.Random(9)
    samples = [sample(rng, 2 ** rng.randint(3, 13), 2 ** rng.randint(3, 13)) for _ in range(300)]
    started = time.thread_time()
    fit(samples, TtftModel())
    assert time.thread_time() - started < 5


def test_uneven_requests_are_expected_in_the_middle() -> None:
    """Not with the quickest of them, which have the smallest of relative errors."""
    learner = TtftLearner()
    for number in range(8):
        seconds = (0.15, 0.2, 0.2, 0.3)[number % 4]
        learner.learn(Sample(computed=64, cached=7000, seconds=seconds))
    assert learner.model.seconds(64, 7000) == pytest.approx(0.2, rel=0.06)
