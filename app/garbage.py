"""When Python looks for garbage that holds itself, which counting references doesn't free.

What a gateway remembers of requests is most of what a collection goes over, and nearly none of it
is garbage: with thresholds of tens of thousands each one took 15 to 200 ms, while all requests
waited. So only the youngest objects are looked at, few at a time and twice, and those that outlive
both are left alone until no request is under way.
"""

import gc
import time
from collections.abc import Callable, Mapping

# Objects, more made than freed, after which the youngest are looked at, and how many such looks are
# followed by one at those that outlived them: a millisecond, and two or three. Left alone after one
# look, what was in use during it, such as a statement for the database, stayed for too long.
_YOUNG = 700
_LOOKS = 5
_NEVER = 1_000_000
# Where nothing is under way, all is looked at once so many have been left alone, but not too often;
# where something always is, once a day: it takes about a second for a million objects.
_LEFT_ALONE = 200_000
_REST_S = 600.0
_LONGEST_S = 86_400.0


class GarbageWatch:
    """Of this process. Begin it when what the start made is there.

    Args:
        now: a clock in seconds that never goes back.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since = now()
        self._left_alone = 0
        self._thresholds = gc.get_threshold()

    def begin(self) -> None:
        """Look at the youngest only, from now on."""
        self._collect_all()
        gc.set_threshold(_YOUNG, _LOOKS, _NEVER)
        gc.callbacks.append(self._looked)

    def end(self) -> None:
        """As it was before `begin`."""
        gc.callbacks.remove(self._looked)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def look(self, *, idle: bool) -> bool:
        """To be called now and then; whether all was looked at."""
        waited_s = self._now() - self._since
        if self._left_alone < _LEFT_ALONE or waited_s < (_REST_S if idle else _LONGEST_S):
            return False
        self._collect_all()
        return True

    def _looked(self, phase: str, told: Mapping[str, int]) -> None:
        if phase == "stop" and told["generation"] == 1:
            gc.freeze()
            self._left_alone += _YOUNG * (_LOOKS + 2)  # Python counts from above a threshold

    def _collect_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._left_alone, self._since = 0, self._now()
