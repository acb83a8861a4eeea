"""What a soak can be told."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakOptions:
    """One soak.

    Attributes:
        folder: state of this soak; one that is there is taken up again.
        max_pages: bound of the gateway's prefix index; must be reached early to judge memory.
        conversation_mb, opening_mb: bounds of what the gateway remembers of conversations and of
            prompts' beginnings; smaller than its defaults, as these must be reached early, too.
        pool_tokens: the simulator's KV pool; far less than the workload's prompts, so it evicts.
        stretches: samples over the whole soak.
        probes: pairs of single requests for the added latency, after each stretch.
        faults: whether the simulator is told to fail now and then.
    """

    folder: Path
    requests: int
    workers: int = 16
    seed: int = 1
    collections: int = 24
    max_pages: int = 50_000
    max_lineages: int = 1_000
    conversation_mb: int = 16
    opening_mb: int = 4
    pool_tokens: int = 200_000
    stretches: int = 40
    probes: int = 30
    accounting: bool = True
    faults: bool = True
    speedup: float = 1_000.0
