"""Traces of requests: when they came, how long they were, and what they shared.

Published ones (Mooncake, Bailian, Azure), request logs, the ledger, and made-up ones of any size.
All are read line by line in bounded memory; a request's blocks are chained ids: an id stands for
its block and for all before it.
"""

from bench.traces.opening import FORMATS, open_trace
from bench.traces.request import Trace, TraceRequest
from bench.traces.synthetic import SyntheticOptions, synthetic_trace

__all__ = [
    "FORMATS",
    "SyntheticOptions",
    "Trace",
    "TraceRequest",
    "open_trace",
    "synthetic_trace",
]
