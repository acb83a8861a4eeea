"""A tenant's limits hold, and what was refused counts for nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission.limiter import Limiter
from app.callers import TenantLimits
from app.errors import RateLimitError


class Use:
    """Of one day that never ends."""

    def __init__(self) -> None:
        self.tokens: dict[str, int] = {}

    def add(self, tenant: str, tokens: int) -> None:
        self.tokens[tenant] = self.of(tenant) + tokens

    def of(self, tenant: str) -> int:
        return self.tokens.get(tenant, 0)

    def until_midnight_s(self) -> float:
        return 3600.0


LIMITS = TenantLimits(requests_per_min=6, tokens_per_min=600, concurrent=3, tokens_per_day=5000)
EVENTS = st.lists(
    st.tuples(st.floats(0, 30), st.integers(1, 700), st.integers(0, 900), st.booleans()),
    max_size=60,
)


@given(EVENTS)
def test_no_limit_is_ever_passed(events: list[tuple[float, int, int, bool]]) -> None:
    now = [0.0]
    use = Use()
    limiter = Limiter(use, now=lambda: now[0])
    under_way: list[tuple[int, int]] = []
    let_in, estimated = 0, 0
    for pause, tokens, used, ends in events:
        now[0] += pause
        try:
            limiter.enter("a", LIMITS, tokens)
        except RateLimitError:
            pass
        else:
            let_in += 1
            estimated += tokens
            under_way.append((tokens, used))
            assert use.of("a") + sum(t for t, _ in under_way) <= 5000
        assert len(under_way) <= 3
        assert limiter.concurrent("a") == len(under_way)
        assert let_in <= 6 + now[0] * 6 / 60 + 1e-6
        if ends and under_way:
            limiter.leave("a", LIMITS, *under_way.pop())
    for tokens, used in under_way:
        limiter.leave("a", LIMITS, tokens, used)
    assert limiter.concurrent("a") == 0


@pytest.mark.parametrize(
    ("limits", "tokens", "what"),
    [
        (TenantLimits(concurrent=1), 1, "requests at a time"),
        (TenantLimits(requests_per_min=1), 1, "requests per minute"),
        (TenantLimits(tokens_per_min=100), 60, "tokens per minute"),
        (TenantLimits(tokens_per_day=100), 60, "tokens per day"),
    ],
)
def test_the_refusal_says_which_limit_and_when_to_try_again(
    limits: TenantLimits, tokens: int, what: str
) -> None:
    limiter = Limiter(Use(), now=lambda: 0.0)
    limiter.enter("a", limits, tokens)
    with pytest.raises(RateLimitError) as caught:
        limiter.enter("a", limits, tokens)
    assert caught.value.what == what
    assert int(caught.value.headers["retry-after"]) >= 1
    limiter.enter("b", limits, tokens)  # another tenant's is another's


def test_more_than_the_limit_in_one_request_says_so_and_no_time() -> None:
    limiter = Limiter(Use(), now=lambda: 0.0)
    with pytest.raises(RateLimitError, match="shorten it or lower max_tokens") as caught:
        limiter.enter("a", TenantLimits(tokens_per_min=100), 101)
    assert "retry-after" not in caught.value.headers


def test_headers_are_openais() -> None:
    limits = TenantLimits(requests_per_min=60, tokens_per_min=6000)
    limiter = Limiter(Use(), now=lambda: 0.0)
    limiter.enter("a", limits, 1000)
    assert limiter.headers("a", limits) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "6000",
        "x-ratelimit-remaining-tokens": "5000",
        "x-ratelimit-reset-tokens": "10s",
    }
    assert limiter.headers("a", TenantLimits(concurrent=5)) == {}


def test_an_estimate_is_put_right_when_the_request_has_ended() -> None:
    limits, use = TenantLimits(tokens_per_min=1000), Use()
    limiter = Limiter(use, now=lambda: 0.0)
    limiter.enter("a", limits, 900)
    limiter.leave("a", limits, 900, 100)
    assert limiter.headers("a", limits)["x-ratelimit-remaining-tokens"] == "900"
    assert use.of("a") == 100
