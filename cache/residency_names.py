"""Which mark an engine's hash belongs to: a hash table of 8 bytes a slot.

A dictionary would take over 100 bytes a page. Here 32 bits of the hash and the number of its mark
share one word; the mark's own list of hashes tells whether it is the right one, and which page.
"""

from array import array
from collections.abc import Iterator

import numpy as np

_SHARDS = 64  # so that growing, which copies all words of a shard, is never noticed
_FIRST_SLOTS = 8
_GROWTH = 1.5
_FULLEST = 0.75
_OVERHANG = 32  # slots after the last home, in place of wrapping round
_NUMBER_BITS = 32
_NUMBERS = (1 << _NUMBER_BITS) - 1
_WORD = (1 << 64) - 1


class NameTable:
    """A multiset of pairs of an engine's hash (signed or unsigned 64 bits) and a mark's number."""

    def __init__(self) -> None:
        self._shards: list[_Shard] = [_Shard() for _ in range(_SHARDS)]

    @property
    def memory_bytes(self) -> int:
        return sum(shard.memory_bytes for shard in self._shards)

    def add(self, name: int, number: int) -> None:
        """`number` is from 1 to 2**32 - 1."""
        self._shards[name % _SHARDS].add(_word(name, number))

    def discard(self, name: int, number: int) -> None:
        self._shards[name % _SHARDS].discard(_word(name, number))

    def numbers(self, name: int) -> Iterator[int]:
        """Numbers of the marks that may have a page of this name."""
        return self._shards[name % _SHARDS].numbers(_word(name, 0))


class _Shard:
    """Linear probing over words sorted by their homes; a word of 0 is an empty slot."""

    __slots__ = ("_homes", "_slots", "_used")

    def __init__(self) -> None:
        self._homes = _FIRST_SLOTS
        self._slots = _empty(_FIRST_SLOTS)
        self._used = 0

    @property
    def memory_bytes(self) -> int:
        return len(self._slots) * self._slots.itemsize

    def add(self, word: int) -> None:
        if self._used >= self._homes * _FULLEST:
            self._grow()
        slots = self._slots
        slot = self._home(word)
        while slots[slot]:
            slot += 1
            if slot == len(slots):
                self._grow()
                self.add(word)
                return
        slots[slot] = word
        self._used += 1

    def discard(self, word: int) -> None:
        slots = self._slots
        slot = self._home(word)
        while slot < len(slots) and slots[slot] != word:
            if not slots[slot]:
                return
            slot += 1
        if slot < len(slots):
            self._close(slot)
            self._used -= 1

    def numbers(self, word: int) -> Iterator[int]:
        slots = self._slots
        wanted = word >> _NUMBER_BITS
        for slot in range(self._home(word), len(slots)):
            found = slots[slot]
            if not found:
                return
            if found >> _NUMBER_BITS == wanted:
                yield found & _NUMBERS

    def _close(self, hole: int) -> None:
        """Moves words back over an emptied slot, so that none is cut off from its home."""
        slots = self._slots
        for slot in range(hole + 1, len(slots)):
            if not slots[slot]:
                break
            if self._home(slots[slot]) <= hole:
                slots[hole] = slots[slot]
                hole = slot
        slots[hole] = 0

    def _home(self, word: int) -> int:
        return (word >> _NUMBER_BITS) * self._homes >> _NUMBER_BITS

    def _grow(self) -> None:
        """Lays the words out anew, in the order of their homes, each as near to it as it can be."""
        words = np.frombuffer(self._slots, dtype=np.uint64)
        words = np.sort(words[words != 0])
        self._homes = int(self._homes * _GROWTH) + 1
        scaled = (words >> np.uint64(_NUMBER_BITS)) * np.uint64(self._homes)
        homes = (scaled >> np.uint64(_NUMBER_BITS)).astype(np.int64)
        order = np.arange(len(words))
        places = np.maximum.accumulate(homes - order) + order
        self._slots = _empty(max(self._homes, int(places.max(initial=0))))
        np.frombuffer(self._slots, dtype=np.uint64)[places] = words


def _empty(homes: int) -> "array[int]":
    return array("Q", bytes(8 * (homes + _OVERHANG)))


def _word(name: int, number: int) -> int:
    return (name & _WORD) >> _NUMBER_BITS << _NUMBER_BITS | number
