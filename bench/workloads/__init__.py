"""Lists of requests: made from a seed or from what really happened, and hashed.

Everything here is pure but for reading and writing files. The same parameters and inputs make the
same bytes, in any process and on any machine.
"""

from bench.workloads.chance import Chance
from bench.workloads.file import (
    Workload,
    WorkloadHeader,
    WorkloadRequest,
    answer_of,
    make_workload,
    read_workload,
    write_workload,
)
from bench.workloads.vocabulary import Vocabulary, english_words, token_words

__all__ = [
    "Chance",
    "Vocabulary",
    "Workload",
    "WorkloadHeader",
    "WorkloadRequest",
    "answer_of",
    "english_words",
    "make_workload",
    "read_workload",
    "token_words",
    "write_workload",
]
