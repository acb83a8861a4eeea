"""An inverted index of some chunks: for each term, the rows that have it and how often.

Arrays, made once and never changed. Segments over disjoint chunks are joined without their texts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from retrieval.index_views import Mask, Places

_MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Postings of n chunks, t terms, p pairs of a term and a row.

    Attributes:
        terms: number of each term, 0 to t - 1.
        starts: (t + 1,) int64: term i has the pairs from starts[i] to starts[i + 1].
        rows: (p,) int32, ascending within a term.
        counts: (p,) uint16: how often the row has the term, at most 65,535.
        lengths: (n,) int32: how many terms the row has.
        places: (n,) int64, ascending.
    """

    terms: dict[str, int]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.uint16]
    lengths: npt.NDArray[np.int32]
    places: Places

    def __len__(self) -> int:
        return len(self.places)

    def postings(self, term: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16]] | None:
        """(rows, counts) of a term, None where no chunk has it."""
        number = self.terms.get(term)
        if number is None:
            return None
        span = slice(self.starts[number], self.starts[number + 1])
        return self.rows[span], self.counts[span]


def segment_of(chunks: Iterable[tuple[int, Sequence[str]]]) -> Segment:
    """A segment of (place, terms) in ascending order of places."""
    terms: dict[str, int] = {}
    numbers: list[int] = []
    counts: list[int] = []
    different: list[int] = []
    lengths: list[int] = []
    places: list[int] = []
    for place, chunk_terms in chunks:
        counted = Counter(chunk_terms)
        numbers += [terms.setdefault(term, len(terms)) for term in counted]
        counts += counted.values()
        different.append(len(counted))
        lengths.append(len(chunk_terms))
        places.append(place)
    rows = np.repeat(np.arange(len(places), dtype=np.int32), different)
    return _sorted_by_term(
        terms,
        np.array(numbers, np.int32),
        rows,
        np.minimum(np.array(counts, np.int64), _MOST).astype(np.uint16),
        np.array(lengths, np.int32),
        np.array(places, np.int64),
    )


def joined(parts: Sequence[tuple[Segment, Mask | None]]) -> Segment:
    """One segment of those rows of several that are alive (None: all)."""
    terms: dict[str, int] = {}
    numbers, rows, counts, lengths, places = [], [], [], [], []
    before = 0
    for segment, alive in parts:
        mask = np.ones(len(segment), np.bool_) if alive is None else alive
        keep = mask[segment.rows]
        local = np.repeat(np.arange(len(segment.terms)), np.diff(segment.starts))[keep]
        used = np.unique(local)
        names = list(segment.terms)
        renumbered = np.zeros(len(names), np.int32)
        renumbered[used] = [terms.setdefault(names[at], len(terms)) for at in used.tolist()]
        numbers.append(renumbered[local])
        new_rows = (np.cumsum(mask) - 1 + before).astype(np.int32)
        rows.append(new_rows[segment.rows[keep]])
        counts.append(segment.counts[keep])
        lengths.append(segment.lengths[mask])
        places.append(segment.places[mask])
        before += int(np.count_nonzero(mask))
    all_places = np.concatenate(places)
    order = np.argsort(all_places)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return _sorted_by_term(
        terms,
        np.concatenate(numbers),
        rank[np.concatenate(rows)],
        np.concatenate(counts),
        np.concatenate(lengths)[order],
        all_places[order],
    )


def _sorted_by_term(
    terms: dict[str, int],
    numbers: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int32],
    counts: npt.NDArray[np.uint16],
    lengths: npt.NDArray[np.int32],
    places: Places,
) -> Segment:
    order = np.lexsort((rows, numbers))
    sizes = np.bincount(numbers, minlength=len(terms))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Segment(terms, starts, rows[order], counts[order], lengths, places)
