"""What the lines of a run come to: pure functions, each figure defined once.

Throughput is over the time from the first request sent to the last answer ended. TTFT is from
sending to the first chunk with text; ITL between two such chunks of one answer (an engine may put
several tokens into one); E2E from sending to the last chunk, with text or without; TPOT is
(E2E - TTFT) / (tokens - 1), as SGLang's and vLLM's own benchmarks count it. Hit rates are tokens
over tokens, never means of rates. What isn't known is None, and how many requests it is not known
for is told beside it.
"""

from bench.metrics.bounds import Reuse, reuse_bounds
from bench.metrics.goodput import Goodput, Targets, goodput
from bench.metrics.hits import HitRates, hit_rates
from bench.metrics.intervals import Distribution, distribution
from bench.metrics.summary import Summary, summarise, summarise_phases

__all__ = [
    "Distribution",
    "Goodput",
    "HitRates",
    "Reuse",
    "Summary",
    "Targets",
    "distribution",
    "goodput",
    "hit_rates",
    "reuse_bounds",
    "summarise",
    "summarise_phases",
]
