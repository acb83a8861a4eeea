"""What it takes to encode a request's text that was never seen before: `FOLDER BODIES SECONDS`.

The budget of a request leaves it out, since whoever encodes a text pays it. It is measured as the
gateway does it, with the words around it known, on the gateway's core and in its Python. In a loop
it is cheaper than between other work, so that what is left over is rather too much than too little.
"""

import json
import struct
import sys
import time
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path

from bench.gateway.bodies import COUNTER
from prompts import load_tokenizer

_DIGITS = len(COUNTER)
_STRIDE = 2654435761  # as in load.c


def main() -> None:
    folder, bodies, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    cache = load_tokenizer(folder).cache
    questions = list(_questions(bodies))
    for question in questions:  # their words are known, but for the digits
        cache.encode_anew((question,))
    numbers, asked, began = count(1), 0, time.process_time()
    until = time.monotonic() + seconds
    for question in cycle(questions):
        digits = next(numbers) * _STRIDE % 10**_DIGITS
        cache.encode_anew((f"{digits:0{_DIGITS}}{question[_DIGITS:]}",))
        asked += 1
        if asked % 64 == 0 and time.monotonic() > until:
            break
    sys.stdout.write(f"{(time.process_time() - began) / asked * 1e6}\n")


def _questions(path: Path) -> Iterator[str]:
    data, at = path.read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        yield json.loads(data[at + 8 : at + 8 + length])["messages"][-1]["content"]
        at += 8 + length


if __name__ == "__main__":
    main()
