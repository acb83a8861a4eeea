"""The entry point that SGLang calls in each of its processes, before it builds anything.

Source: sglang/srt/plugins/__init__.py:104, `load_plugins` (sglang 0.5.23).
"""

from foreword_cpu import versions


def register() -> None:
    """Put every shim in place. Does nothing in an engine that runs on another device.

    Raises:
        SystemExit: SGLang or torch is not the release that the shims were made for.
    """
    if not versions.enabled():
        return
    versions.require()
    # Imported here: these modules need torch and SGLang, the check above must not.
    from foreword_cpu import attention, host_pool, linear, processes, streams

    streams.install()
    host_pool.install()
    attention.install()
    linear.install()
    processes.install()
