"""A gateway before the simulated engine, whose clock goes faster than ours."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.rag_cag.stacks import Stack, running_simulated
from bench.soak.model_folder import write_model_folder

TOKENS_PER_S = 3_000.0
_POOL_TOKENS = 60_000
_CONTEXT_TOKENS = 24_576


def each_anew(speedup: float) -> Callable[[], AbstractContextManager[Stack]]:
    """Both processes, started anew each time.

    What the gateway's settings say in seconds is divided by the speed-up, as the engine's are.
    """

    @contextmanager
    def anew() -> Iterator[Stack]:
        with tempfile.TemporaryDirectory(prefix="foreword-bench-") as made:
            folder = Path(made)
            model = write_model_folder(folder / "model")
            with running_simulated(_options(model, speedup), folder, _settings(speedup)) as stack:
                yield stack

    return anew


def _options(model: Path, speedup: float) -> list[str]:
    settings = {
        "--model-path": model,
        "--served-model-name": "simulated",
        "--max-total-tokens": _POOL_TOKENS,
        "--context-length": _CONTEXT_TOKENS,
        "--prefill-tokens-per-s": TOKENS_PER_S,
        "--radix-eviction-policy": "priority",
        "--kv-events-endpoint": "tcp://127.0.0.1:0",
        "--kv-events-replay-endpoint": "tcp://127.0.0.1:0",
        "--speedup": speedup,
        "--label": "template",
    }
    pairs = [str(part) for pair in settings.items() for part in pair]
    return [*pairs, "--enable-priority-scheduling"]


def _settings(speedup: float) -> dict[str, str]:
    scaled = {
        "FOREWORD_MODES__DWELL_S": 60.0,
        "FOREWORD_MODES__LONGEST_WAIT_S": 5.0,
        "FOREWORD_CORPORA__HALF_LIFE_S": 3600.0,
    }
    return {name: str(seconds / speedup) for name, seconds in scaled.items()}
