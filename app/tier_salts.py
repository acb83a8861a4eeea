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
"""How long a tier server of a replica's own may be away and still be told when it is back.

By then a deletion is forgotten, whoever was told: what nobody has for so long isn't waited for.
"""


class SaltKeys:
    """Knows which server was told what.

    Args:
        sides: the tier servers as of now; those that nobody can ask, too.
        are_own: whether each replica has its own.
        has_none: whether it is known of all replicas that they have no tiers.
    """

    def __init__(
        self,
        sides: Callable[[], Sequence[TierSide]],
        *,
        are_own: bool,
        has_none: Callable[[], bool] = lambda: False,
    ) -> None:
        self.are_own = are_own
        self._sides = sides
        self._has_none = has_none
        self._told = _Told()

    def round(self) -> "Round":
        """One try on all of them; a server that fails is left alone for the rest of it."""
        sides = self._sides()
        self._told.only(sides)
        told = self._told if self.are_own else None
        return Round(sides, told, has_none=self._has_none())


class _Told:
    """What was told to the last start that was seen at each address.

    Another start may be another server, with keys of its own. One that doesn't answer for a moment
    is taken for the one that it was: else each missed look would have all told again.
    """

    def __init__(self) -> None:
        self._by_url: dict[str, tuple[str, set[str]]] = {}

    def only(self, sides: Sequence[TierSide]) -> None:
        """Forget the addresses that are none of theirs, and the starts that are over."""
        urls = {side.client.url for side in sides if side.client is not None}
        self._by_url = {url: told for url, told in self._by_url.items() if url in urls}
        for side in sides:
            self._of(side)

    def knows(self, side: TierSide, salt: str) -> bool:
        """Whether it was told."""
        return salt in self._of(side)

    def note(self, side: TierSide, salt: str) -> None:
        """It was told."""
        self._of(side).add(salt)

    def _of(self, side: TierSide) -> set[str]:
        if side.client is None:
            return set()
        url, start = side.client.url, _start(side)
        known = self._by_url.get(url)
        if start is not None and (known is None or known[0] != start):
            known = self._by_url[url] = start, set()
        return known[1] if known is not None else set()


class Round:
    """One try. `problem` says what the first server that failed did, or that nobody knows it."""

    def __init__(
        self, sides: Sequence[TierSide], told: _Told | None, *, has_none: bool = False
    ) -> None:
        self.problem: str | None = None
        self._sides = sides
        self._told = told
        self._has_none = has_none
        self._failed: set[TierSide] = set()

    def is_done(self, salt: str) -> bool:
        """Whether no server is to be told: each was, or there is none."""
        if self._has_none:
            return True
        return bool(self._sides) and all(self._was_told(side, salt) for side in self._sides)

    def can_tell(self, salt: str) -> bool:
        """Whether some server is to be told that hasn't failed."""
        return any(
            side not in self._failed and not self._was_told(side, salt) for side in self._sides
        )

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
                self._told.note(side, salt)

    def _was_told(self, side: TierSide, salt: str) -> bool:
        return self._told is not None and self._told.knows(side, salt)


def may_forget(requested_at: datetime) -> bool:
    """Whether a deletion is so old that no server can come any more that is still to be told."""
    at = requested_at if requested_at.tzinfo else requested_at.replace(tzinfo=UTC)
    return datetime.now(UTC) - at > REMEMBERED


def salt_keys(fleet: Fleet, tiers: Tiers) -> SaltKeys:
    """Those of a deployment."""
    shared = tiers.shared
    if shared is not None:
        known = (shared,) if shared.client is not None else ()
        return SaltKeys(lambda: known, are_own=False)
    return SaltKeys(
        lambda: tuple(_with_tiers(fleet)), are_own=True, has_none=lambda: _has_none(fleet)
    )


def _with_tiers(fleet: Fleet) -> Iterable[TierSide]:
    """An engine that hasn't answered may have tiers."""
    for replica in fleet.replicas:
        if replica.seen is None or replica.seen.info.tiers:
            yield replica.tier


def _has_none(fleet: Fleet) -> bool:
    """Where no replica is known, some may still be found."""
    return bool(fleet.replicas) and not any(_with_tiers(fleet))


def _start(side: TierSide) -> str | None:
    """None while it doesn't answer: what it is told then isn't known of its next start."""
    status = side.watch.status if side.watch is not None else None
    return status.instance if status is not None else None
