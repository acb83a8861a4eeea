"""Which mark an engine's hash belongs to: a hash table of 8 bytes a slot.

A dictionary would take over 100 bytes a page. Here 32 bits of the hash and the number of its mark
share one word; the mark's own list of hashes tells whether it is the right one, and which page.
"""

from array import array

import numpy as np

_SHARDS = 64  # so that growing, which copies all words of a shard, is never noticed
_FIRST_SLOTS = 128
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

    def add_all(self, packed: bytes, number: int) -> None:
        """Adds names of 8 bytes each under one number; zeros stand for none."""
        shards = self._shards
        for name in memoryview(packed).cast("Q"):
            if not name:
                continue
            # As `_Shard.add` does where there is room, without a call for each name.
            shard, home = shards[name % _SHARDS], name >> _NUMBER_BITS
            slots, slot = shard.slots, home * shard.homes >> _NUMBER_BITS
            while slot < len(slots) and slots[slot]:
                slot += 1
            if slot < len(slots) and shard.used < shard.most:
                slots[slot] = home << _NUMBER_BITS | number
                shard.used += 1
            else:
                shard.add(home << _NUMBER_BITS | number)

    def discard(self, name: int, number: int) -> None:
        self._shards[name % _SHARDS].discard(_word(name, number))

    def numbers(self, name: int) -> list[int]:
        """Numbers of the marks that may have a page of this name."""
        shard, found = self._shards[name % _SHARDS], []
        wanted = (name & _WORD) >> _NUMBER_BITS
        slots, slot = shard.slots, wanted * shard.homes >> _NUMBER_BITS
        while slot < len(slots) and (word := slots[slot]):
            if word >> _NUMBER_BITS == wanted:
                found.append(word & _NUMBERS)
            slot += 1
        return found


class _Shard:
    """Linear probing over words sorted by their homes; a word of 0 is an empty slot."""

    __slots__ = ("homes", "most", "slots", "used")

    def __init__(self) -> None:
        self.homes = _FIRST_SLOTS
        self.most = int(_FIRST_SLOTS * _FULLEST)
        self.slots = _empty(_FIRST_SLOTS)
        self.used = 0

    @property
    def memory_bytes(self) -> int:
        return len(self.slots) * self.slots.itemsize

    def add(self, word: int) -> None:
        if self.used >= self.most:
            self._grow()
        slots = self.slots
        slot = (word >> _NUMBER_BITS) * self.homes >> _NUMBER_BITS  # `_home`, without a call
        while slots[slot]:
            slot += 1
            if slot == len(slots):
                self._grow()
                self.add(word)
                return
        slots[slot] = word
        self.used += 1

    def discard(self, word: int) -> None:
        slots = self.slots
        slot = self._home(word)
        while slot < len(slots) and slots[slot] != word:
            if not slots[slot]:
                return
            slot += 1
        if slot < len(slots):
            self._close(slot)
            self.used -= 1

    def _close(self, hole: int) -> None:
        """Moves words back over an emptied slot, so that none is cut off from its home."""
        slots = self.slots
        for slot in range(hole + 1, len(slots)):
            if not slots[slot]:
                break
            if self._home(slots[slot]) <= hole:
                slots[hole] = slots[slot]
                hole = slot
        slots[hole] = 0

    def _home(self, word: int) -> int:
        return (word >> _NUMBER_BITS) * self.homes >> _NUMBER_BITS

    def _grow(self) -> None:
        """Lays the words out anew, in the order of their homes, each as near to it as it can be."""
        words = np.frombuffer(self.slots, dtype=np.uint64)
        words = np.sort(words[words != 0])
        self.homes = int(self.homes * _GROWTH) + 1
        self.most = int(self.homes * _FULLEST)
        scaled = (words >> np.uint64(_NUMBER_BITS)) * np.uint64(self.homes)
        homes = (scaled >> np.uint64(_NUMBER_BITS)).astype(np.int64)
        order = np.arange(len(words))
        places = np.maximum.accumulate(homes - order) + order
        self.slots = _empty(max(self.homes, int(places.max(initial=0))))
        np.frombuffer(self.slots, dtype=np.uint64)[places] = words


def _empty(homes: int) -> "array[int]":
    return array("Q", bytes(8 * (homes + _OVERHANG)))


def _word(name: int, number: int) -> int:
    return (name & _WORD) >> _NUMBER_BITS << _NUMBER_BITS | number
