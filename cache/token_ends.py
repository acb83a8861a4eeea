"""What two runs of packed tokens have in common at their starts and ends."""

from cache.accounting_pieces import ID_BYTES, Piece

Range = tuple[int, int]

_NEAR_BYTES = 256


def shared_start(one: bytes, other: bytes, *, likely: int = 0) -> int:
    """Leading tokens that are the same: found by halving, at last by a subtraction of bits.

    `likely` tokens are looked at first: finding them the same leaves little to halve.
    """
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high // ID_BYTES
    if likely and one[: likely * ID_BYTES] == other[: likely * ID_BYTES]:
        low = min(high, likely * ID_BYTES)
    while high - low > _NEAR_BYTES:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    differing = int.from_bytes(one[low:high], "little") ^ int.from_bytes(other[low:high], "little")
    lowest = (differing & -differing).bit_length() - 1
    return (low + lowest // 8) // ID_BYTES


def shared_end(one: bytes, other: bytes) -> int:
    """Trailing tokens that are the same, found by halving."""
    low, high = 0, min(len(one), len(other)) // ID_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        length = middle * ID_BYTES
        if one[-length:] == other[-length:]:
            low = middle
        else:
            high = middle - 1
    return low


def kept_of_edited(
    packed: bytes, piece: Piece, earlier: bytes, other: Piece, shared: int
) -> tuple[Range, ...]:
    """The tokens of an edited piece that its earlier form had too, behind the `shared` ones.

    Two pieces are forms of one where at least half of the shorter is the same in both, at its start
    and its end together; otherwise nothing is found.
    """
    mine = packed[piece.start * ID_BYTES : piece.own_stop * ID_BYTES]
    theirs = earlier[other.start * ID_BYTES : other.own_stop * ID_BYTES]
    least = min(len(mine), len(theirs)) // ID_BYTES
    head = shared_start(mine, theirs)
    # The last token may have merged with what follows, which is no part of the piece.
    tail = min(shared_end(mine, theirs), least - head)
    if tail == 0:
        tail = min(shared_end(mine[:-ID_BYTES], theirs[:-ID_BYTES]), max(0, least - 1 - head))
        stop = piece.own_stop - 1
    else:
        stop = piece.own_stop
    if 2 * (head + tail) < least or least == 0:
        return ()
    ranges = ((piece.start, piece.start + head), (stop - tail, stop))
    return tuple((max(start, shared), end) for start, end in ranges if end > max(start, shared))
