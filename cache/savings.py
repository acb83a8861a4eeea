"""What re-use saved, from the measured speed of computing prompts. Pure.

Re-used tokens weren't computed: at the measured prefill speed they would have kept an engine busy
for so long. It is an estimate and says what it rests on: tokens that came from a tier had to be
loaded instead, and a longer queue, which more computing would have meant, isn't counted. Money is
told only with a price.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """Re-used and lost tokens in time and money.

    Attributes:
        saved_tokens: cached tokens, over the requests for which they are known.
        lost_tokens: what could have been re-used and wasn't; None where that isn't known.
        requests: how many those are.
        tokens_per_s: prompt tokens that one rank of the engine computes in a second.
        measured_tokens: prompt tokens whose computing was timed for that.
        gpus_per_rank: GPUs that compute one prompt together (tensor and pipeline parallel).
        price_per_gpu_hour: in the operator's own currency; None where none was given.
    """

    saved_tokens: int
    lost_tokens: int | None
    requests: int
    tokens_per_s: float
    measured_tokens: int
    gpus_per_rank: int = 1
    price_per_gpu_hour: float | None = None

    @property
    def saved_gpu_s(self) -> float:
        """GPU-seconds that the re-used tokens would have taken."""
        return self.gpu_s(self.saved_tokens)

    @property
    def lost_gpu_s(self) -> float | None:
        """GPU-seconds that went into tokens that could have been re-used."""
        return None if self.lost_tokens is None else self.gpu_s(self.lost_tokens)

    @property
    def ttft_per_request_s(self) -> float | None:
        """Seconds of computing before the first token that a request was spared, in the mean."""
        if not self.requests:
            return None
        return self.saved_tokens / self.tokens_per_s / self.requests

    @property
    def saved_money(self) -> float | None:
        """The saved GPU-seconds at the given price."""
        return self._money(self.saved_gpu_s)

    @property
    def lost_money(self) -> float | None:
        """The lost GPU-seconds at the given price."""
        return None if self.lost_gpu_s is None else self._money(self.lost_gpu_s)

    def gpu_s(self, tokens: int) -> float:
        """GPU-seconds that computing so many prompt tokens takes."""
        return tokens / self.tokens_per_s * self.gpus_per_rank

    def _money(self, gpu_s: float) -> float | None:
        return None if self.price_per_gpu_hour is None else gpu_s / 3600 * self.price_per_gpu_hour
