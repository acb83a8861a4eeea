"""Requests of one template put together without any tag: by the text that they share.

Texts are compared piece by piece and loosely, so that a clock, another line ending or a moved
document leaves a request in its group.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

from cache.request_log.loose import LooseTexts
from cache.request_log.table import RequestTable

# Less shared text than this (about a page) makes no template.
_LEAST_CHARACTERS = 256
_LEAST_SHARE = 0.5
# Openings used no more often than this look as if they were made for each request.
_RARE_USES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Requests of one template, in the order of the log."""

    requests: tuple[int, ...]


@dataclass(slots=True)
class _Cluster:
    characters: int
    rare: bool


def find_groups(table: RequestTable, loose: LooseTexts) -> list[Group]:
    """The groups, largest first; each request is in one."""
    openings = [_opening(table, request) for request in table]
    uses = Counter(openings)
    clusters = _clusters(table, loose, uses)
    members: dict[int, list[int]] = defaultdict(list)
    for request, opening in enumerate(openings):
        members[clusters[opening]].append(request)
    groups = [Group(requests=tuple(requests)) for requests in members.values()]
    return sorted(groups, key=lambda group: (-len(group.requests), group.requests[0]))


def _opening(table: RequestTable, request: int) -> int:
    """The message that tells the template: the first, which is the system message if any."""
    return table.prompt(request).messages[0]


def _clusters(table: RequestTable, loose: LooseTexts, uses: Counter[int]) -> dict[int, int]:
    """For each opening the number of its cluster; openings without much text share cluster 0."""
    clusters: list[_Cluster] = [_Cluster(characters=0, rare=False)]
    owners: dict[int, list[int]] = {}
    found: dict[int, int] = {}
    for opening, count in uses.items():
        pieces = _weights(table, loose, opening)
        characters = sum(pieces.values())
        cluster = _nearest(pieces, characters, count <= _RARE_USES, clusters, owners)
        if cluster is None and not table.store.is_head(opening) and characters < _LEAST_CHARACTERS:
            found[opening] = 0
            continue
        if cluster is None:
            cluster = len(clusters)
            clusters.append(_Cluster(characters=characters, rare=count <= _RARE_USES))
        found[opening] = cluster
        for piece in pieces:
            held = owners.setdefault(piece, [])
            if cluster not in held:
                held.append(cluster)
    return found


def _weights(table: RequestTable, loose: LooseTexts, opening: int) -> dict[int, int]:
    """Characters of each piece with words in it, all its occurrences together."""
    weights: dict[int, int] = {}
    for piece in table.store.piece_numbers(opening):
        key = loose.piece(piece)
        if key:
            weights[key] = weights.get(key, 0) + len(table.store.piece(piece))
    return weights


def _nearest(
    pieces: dict[int, int],
    characters: int,
    rare: bool,
    clusters: list[_Cluster],
    owners: dict[int, list[int]],
) -> int | None:
    """The cluster that shares most with an opening, if that is enough to be one template."""
    shared: Counter[int] = Counter()
    for piece, weight in pieces.items():
        for cluster in owners.get(piece, ()):
            shared[cluster] += weight
    if not shared:
        return None
    best, overlap = max(shared.items(), key=lambda item: (item[1], -item[0]))
    nearest = clusters[best]
    if overlap >= _LEAST_SHARE * max(characters, nearest.characters):
        return best
    return best if overlap >= _LEAST_CHARACTERS and rare and nearest.rare else None
