"""Runs as the tier: the real one, whose loads wait while FOREWORD_TEST_GATE exists."""

import functools
import os
import time
from pathlib import Path
from typing import Any

from lmcache.v1.multiprocess.modules.lmcache_driven_transfer import LMCacheDrivenTransferModule

from foreword_guard.tier import main

GATE = Path(os.environ["FOREWORD_TEST_GATE"])
retrieve = LMCacheDrivenTransferModule.retrieve


@functools.wraps(retrieve)
def retrieve_when_let(self: Any, *arguments: Any, **named: Any) -> Any:
    while GATE.exists():
        time.sleep(0.02)
    return retrieve(self, *arguments, **named)


LMCacheDrivenTransferModule.retrieve = retrieve_when_let

if __name__ == "__main__":
    main()
