"""Starts the engine's processes by forking instead of importing SGLang three times.

Stands in for `multiprocessing.set_start_method("spawn")` (sglang/srt/entrypoints/engine.py:1995).
SGLang spawns because a CUDA context does not survive a fork. Without CUDA, a fork of the main
process has everything imported already: that saves some 12 s of processor time for each of the two
other processes, and their pages stay shared.

Source: sglang/srt/entrypoints/engine.py:1995, 974 (sglang 0.5.23).
"""

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any


def install() -> None:
    """Choose `fork` right after SGLang chose `spawn`."""
    from sglang.srt.entrypoints import engine

    engine._set_envs_and_config = _then_fork(engine._set_envs_and_config)
    # The main process handles SIGQUIT before it starts the others; a spawned process would not
    # have inherited that.
    os.register_at_fork(after_in_child=_reset_signals)


def _then_fork(configure: Callable[..., None]) -> Callable[..., None]:
    def configure_and_choose_fork(*args: Any, **kwargs: Any) -> None:
        configure(*args, **kwargs)
        multiprocessing.set_start_method("fork", force=True)

    return configure_and_choose_fork


def _reset_signals() -> None:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
