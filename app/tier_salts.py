"""The keys of deleted salts, destroyed on every tier server that may have any.

A tier server that all replicas share is told once. Those of the replicas' own come and go, and may
come back with what they had: each that comes is told of all that was deleted lately.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import anyio

from app.errors import TierServerError
from app.fleet.fleet import Fleet
from app.tiers import Tiers, TierSide

REMEMBERED = timedelta(days=90)
"""How long a tier server of a replica's own may be away and still be told when it is back."""

_Start = tuple[str, str]


class SaltKeys:
    """Knows which server was told what.

    Args:
        sides: the tier servers as of now; those that nobody can ask, too.
        are_own: whether each replica has its own.
    """

    def __init__(self, sides: Callable[[], Sequence[TierSide]], *, are_own: bool) -> None:
        self.are_own = are_own
        self._sides = sides
        # By address and start: another start may be another server, with keys of its own.
        self._told: dict[_Start, set[str]] = {}

    def round(self) -> "Round":
        """One try on all of them; a server that fails is left alone for the rest of it."""
        sides = self._sides()
        starts = {start for side in sides if (start := _start(side)) is not None}
        self._told = {start: told for start, told in self._told.items() if start in starts}
        return Round(sides, self._told if self.are_own else None)


class Round:
    """One try. `problem` says what the first server that failed did, or that nobody knows it."""

    def __init__(self, sides: Sequence[TierSide], told: dict[_Start, set[str]] | None) -> None:
        self.problem: str | None = None
        self._sides = sides
        self._told = told
        self._failed: set[TierSide] = set()

    @property
    def is_over(self) -> bool:
        """Whether there is no server left to ask."""
        return len(self._failed) == len(self._sides)

    def is_done(self, salt: str) -> bool:
        """Whether each server was told before."""
        return bool(self._sides) and all(self._was_told(side, salt) for side in self._sides)

    def may_forget(self, salt: str, requested_at: datetime) -> bool:
        """Whether no server can come any more that is still to be told."""
        at = requested_at if requested_at.tzinfo else requested_at.replace(tzinfo=UTC)
        return self.is_done(salt) and datetime.now(UTC) - at > REMEMBERED

    async def destroy(self, salt: str) -> bool:
        """Returns whether no server that is known has the salt's key any more."""
        sides = [side for side in self._sides if not self._was_told(side, salt)]
        async with anyio.create_task_group() as tasks:
            for side in sides:
                tasks.start_soon(self._tell, side, salt)
        return bool(self._sides) and not self._failed.intersection(sides)

    async def _tell(self, side: TierSide, salt: str) -> None:
        if side in self._failed:
            return
        start = _start(side)
        try:
            if side.client is None:
                raise TierServerError(f"(of {side.name})", "nobody said where it is")
            await side.client.destroy_salt(salt)
        except TierServerError as error:
            self._failed.add(side)
            self.problem = self.problem or str(error)
        else:
            if self._told is not None and start is not None and start == _start(side):
                self._told.setdefault(start, set()).add(salt)

    def _was_told(self, side: TierSide, salt: str) -> bool:
        start = _start(side)
        if self._told is None or start is None:
            return False
        return salt in self._told.get(start, ())


def salt_keys(fleet: Fleet, tiers: Tiers) -> SaltKeys:
    """Those of a deployment."""
    shared = tiers.shared
    if shared is not None:
        known = (shared,) if shared.client is not None else ()
        return SaltKeys(lambda: known, are_own=False)
    return SaltKeys(lambda: tuple(_with_tiers(fleet)), are_own=True)


def _with_tiers(fleet: Fleet) -> Iterable[TierSide]:
    """An engine that hasn't answered may have tiers."""
    for replica in fleet.replicas:
        if replica.seen is None or replica.seen.info.tiers:
            yield replica.tier


def _start(side: TierSide) -> _Start | None:
    """None while it doesn't answer: what it is told then isn't known of its next start."""
    if side.client is None or side.watch is None or side.watch.status is None:
        return None
    return side.client.url, side.watch.status.instance
