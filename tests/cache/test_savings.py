"""What re-used tokens are worth."""

import pytest

from cache.savings import Savings


def savings(**changes: object) -> Savings:
    plain = {
        "saved_tokens": 7_200_000,
        "lost_tokens": 1000,
        "requests": 100,
        "tokens_per_s": 2000.0,
        "measured_tokens": 50_000,
    }
    return Savings(**{**plain, **changes})  # type: ignore[arg-type]


def test_tokens_become_gpu_seconds_at_the_measured_speed() -> None:
    assert savings().saved_gpu_s == 3600
    assert savings().lost_gpu_s == 0.5
    assert savings(gpus_per_rank=4).saved_gpu_s == 4 * 3600


def test_the_spared_time_is_that_of_one_request_whatever_its_gpus() -> None:
    assert savings(gpus_per_rank=4).ttft_per_request_s == 36
    assert savings(requests=0).ttft_per_request_s is None


def test_money_needs_a_price() -> None:
    assert savings().saved_money is None
    assert savings(price_per_gpu_hour=2.5).saved_money == 2.5
    assert savings(price_per_gpu_hour=3.6).lost_money == pytest.approx(0.0005)
    assert savings(price_per_gpu_hour=0.0).saved_money == 0


def test_an_unknown_loss_stays_unknown() -> None:
    unknown = savings(lost_tokens=None, price_per_gpu_hour=1.0)
    assert unknown.lost_gpu_s is None
    assert unknown.lost_money is None
