"""Keeps one line of LMCache out of the log: it names every chunk of each store that failed.

`Store task %d to adapter %d failed for keys: %s` (storage_controllers/store_controller.py:806,
0.5.6) would be written for each store that is skipped. The guard says once why an adapter isn't
stored into, and the status route counts.
"""

import logging

_LOGGER = "lmcache.v1.distributed.storage_controllers.store_controller"
_UNWANTED = "Store task %d to adapter %d failed for keys"


class _NotFailedStores(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(_UNWANTED)


def install() -> None:
    """Put it into LMCache's logger."""
    logging.getLogger(_LOGGER).addFilter(_NotFailedStores())
