"""Will it be asked for again, and when: learnt as requests come, by what a gateway can see.

What is kept of a request belongs to a class (its turn, its length, …). For a class we learn how
many of its members came back; for all of a kind together, after how long. From both follows what a
block is worth at any age: hits to be had for each second that it is kept, if it is kept for as long
as is best (Gittins' index; caches know it as hit density).
"""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import log2
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LONGEST_S = 4096.0
_BINS_AN_OCTAVE = 4
_BINS = int(_BINS_AN_OCTAVE * log2(LONGEST_S)) + 1
# Where bins of age begin, in seconds: 0, then 1 s and on, each 2 ** (1/4) times the last.
EDGES_S: Floats = np.concatenate([[0.0], 2.0 ** (np.arange(_BINS) / _BINS_AN_OCTAVE)])
# How many members of a class weigh as much as what is known of its kind.
_PRIOR = 20.0


class Class(NamedTuple):
    """What members have in common: a kind (its first part says who shares gaps), and more."""

    kind: tuple[Hashable, ...]
    more: Hashable


def age_bin(age_s: float) -> int:
    """The bin that an age falls in."""
    if age_s < 1.0:
        return 0
    return min(_BINS, 1 + int(_BINS_AN_OCTAVE * log2(age_s)))


@dataclass(slots=True)
class _Count:
    members: float = 0.0
    returned: float = 0.0
    blocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """One class by age, at the bins' beginnings.

    Attributes:
        worth: hits for each second that a block is kept, if it is kept for as long as is best.
        kept_s: seconds that a block is kept, on average, if it is kept to that age.
    """

    worth: Floats
    kept_s: Floats


@dataclass(slots=True)
class Returns:
    """Counts so far."""

    _counts: dict[Hashable, _Count] = field(default_factory=lambda: defaultdict(_Count))
    _gaps: dict[Hashable, Floats] = field(
        default_factory=lambda: defaultdict(lambda: np.full(_BINS + 1, 0.02))
    )
    _classes: dict[Class, None] = field(default_factory=dict)

    @property
    def classes(self) -> list[Class]:
        """Those that were met, in the order in which they were."""
        return list(self._classes)

    def came(self, which: Class, blocks: int) -> None:
        """A new member of so many blocks."""
        self._classes[which] = None
        for key in (which, which.kind):
            count = self._counts[key]
            count.members += 1
            count.blocks += blocks

    def returned(self, which: Class, *, after_s: float, share: float) -> None:
        """A member, or a `share` of it, was asked for again."""
        for key in (which, which.kind):
            self._counts[key].returned += share
        self._gaps[which.kind[0]][age_bin(after_s)] += share

    def blocks(self, which: Class) -> int:
        """Blocks of all members so far."""
        return self._counts[which].blocks

    def chance(self, which: Class) -> float:
        """That a member comes back at all."""
        kind, own = self._counts[which.kind], self._counts[which]
        of_kind = (kind.returned + 2.0) / (kind.members + 8.0)
        return min(0.99, (own.returned + _PRIOR * of_kind) / (own.members + _PRIOR))

    def outlook(self, which: Class) -> Outlook:
        """What members are worth by their age."""
        gaps = self._gaps[which.kind[0]]
        back = self.chance(which) * np.concatenate([[0.0], np.cumsum(gaps / gaps.sum())])
        # Whatever takes longer than the last bin's beginning ends with twice that.
        edges_s = np.append(EDGES_S, 2 * LONGEST_S)
        alive = 1.0 - (back[1:] + back[:-1]) / 2
        kept_s = np.concatenate([[0.0], np.cumsum(alive * np.diff(edges_s))])
        gained = back[None, :] - back[:, None]
        held_s = kept_s[None, :] - kept_s[:, None]
        density = np.divide(gained, held_s, out=np.zeros_like(gained), where=held_s > 0)
        return Outlook(worth=density.max(axis=1)[:-1], kept_s=kept_s[:-1])
