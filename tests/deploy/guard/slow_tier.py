"""Runs as the tier: the real one, whose loads wait while FOREWORD_TEST_GATE exists.

They wait where it hurts: after everything was looked up and checked, before the first byte is
written into the engine's pages.
"""

import functools
import os
import time
from pathlib import Path
from typing import Any

from lmcache.lmcache_native import TransferDirection
from lmcache.v1.multiprocess.modules import lmcache_driven_transfer

from foreword_guard.tier import main

GATE = Path(os.environ["FOREWORD_TEST_GATE"])
transfer = lmcache_driven_transfer.transfer_kv_per_object_group


@functools.wraps(transfer)
def transfer_when_let(*arguments: Any, **named: Any) -> Any:
    while named["direction"] == TransferDirection.H2D and GATE.exists():
        time.sleep(0.02)
    return transfer(*arguments, **named)


lmcache_driven_transfer.transfer_kv_per_object_group = transfer_when_let

if __name__ == "__main__":
    main()
