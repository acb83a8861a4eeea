"""The entry point that SGLang calls in each of its processes, before it builds anything.

Source: sglang/srt/plugins/__init__.py:104, `load_plugins` (sglang 0.5.23).
"""

import os

from foreword_cpu import versions


def enabled() -> bool:
    """Whether this process belongs to an engine that was started for a plain CPU."""
    return os.environ.get("SGLANG_USE_CPU_ENGINE") == "1"


def register() -> None:
    """Put every shim in place. Does nothing in an engine that runs on another device.

    Raises:
        SystemExit: SGLang or torch is not the release that the shims were made for.
    """
    if not enabled():
        return
    versions.require()
    # Imported here: these modules need torch and SGLang, the check above must not.
    from foreword_cpu import attention, host_pool, linear, processes, streams

    streams.install()
    host_pool.install()
    attention.install()
    linear.install()
    processes.install()
