"""Runs as the tier: the real one, whose disk takes no new salt key while FOREWORD_TEST_GATE exists.

Each key takes the disk a second besides, as where it is busy with what others write.
"""

import os
import time
from pathlib import Path

from foreword_guard import salt_key_files
from foreword_guard.tier import main

GATE = Path(os.environ["FOREWORD_TEST_GATE"])
BUSY_S = 1.0
write = salt_key_files._write_new


def write_when_let(path: Path, data: bytes) -> None:
    time.sleep(BUSY_S)
    while GATE.exists():
        time.sleep(0.02)
    write(path, data)


salt_key_files._write_new = write_when_let

if __name__ == "__main__":
    main()
