"""The tree in which served prompts are counted by their openings.

It stands beside the prefix index and lasts when the index forgets pages; it doesn't know what is
cached where.
"""

from collections.abc import Callable, Mapping, Sequence

from cache.flame import FlameNode
from cache.page_keys import KEY_BYTES, PageKeys, shared_pages
from cache.prefix_flame_pieces import Piece, Sum, export, pieces

_KEPT_NODES = 4096
_KEPT_PAGES = 200_000
_LABELS_A_PAGE = 3
_MOST_LABELS = 256  # of one prompt


class Flame:
    """Counts served prompts by their openings; the least recently used ends are put together."""

    def __init__(self, *, page_tokens: int) -> None:
        self._page_tokens = page_tokens
        self._root = Piece(b"", "", None)
        self._pieces = self._pages = self._clock = 0

    def add(
        self,
        keys: PageKeys,
        *,
        salt: str,
        prompt_tokens: int,
        cached_tokens: int | None,
        labels: Sequence[tuple[int, str]],
    ) -> None:
        """A prompt was served; `labels` say what begins at which token."""
        self._clock += 1
        known = cached_tokens is not None
        cached_pages = min((cached_tokens or 0) // self._page_tokens, len(keys))
        names = self._names(labels)
        cuts = sorted({*names, cached_pages, len(keys)})
        piece, page = self._root, 0
        self._count(piece, known, cached=False)
        for cut in cuts:
            while page < min(cut, len(keys)):
                piece = self._next(piece, keys, page, cut, names.get(page, ""), salt)
                page += piece.pages
                self._count(piece, known, cached=page <= cached_pages)
        end = max(0, prompt_tokens - page * self._page_tokens)
        cached = min(end, (cached_tokens or 0) - cached_pages * self._page_tokens)
        piece.ends.add(Sum(1, end, end if known else 0, cached))
        self._bound()

    def forget(self, salt: str) -> None:
        """Puts together what only this salt's prompts had, so that its labels are gone."""
        self._fold(lambda piece: piece.salt == salt)

    def export(self, *, max_nodes: int) -> FlameNode:
        """The tree of the most served pieces; smaller ones are put together as `OTHER`."""
        return export(self._root, page_tokens=self._page_tokens, max_nodes=max_nodes)

    def _names(self, labels: Sequence[tuple[int, str]]) -> Mapping[int, str]:
        """Labels by the page that they begin in."""
        names: dict[int, list[str]] = {}
        for start, text in labels[:_MOST_LABELS]:
            of_page = names.setdefault(start // self._page_tokens, [])
            if text not in of_page and len(of_page) < _LABELS_A_PAGE:
                of_page.append(text)
        return {page: " · ".join(texts) for page, texts in names.items()}

    def _count(self, piece: Piece, known: bool, *, cached: bool) -> None:
        piece.used = self._clock
        piece.requests += 1
        piece.known += known
        piece.cached += known and cached

    def _next(
        self, piece: Piece, keys: PageKeys, page: int, stop: int, label: str, salt: str
    ) -> Piece:
        """The piece after one, that ends at page `stop` at the latest; a new one if need be."""
        found = piece.children.get(keys.key(page))
        if found is None:
            packed = keys.packed[page * KEY_BYTES : stop * KEY_BYTES]
            found = piece.children[packed[:KEY_BYTES]] = Piece(packed, label, salt)
            self._pieces += 1
            self._pages += found.pages
            return found
        shared = min(shared_pages(found.keys, 0, keys.packed, page), stop - page)
        if shared < found.pages:
            found = self._split(piece, found, shared)
        found.label = found.label or label
        if found.salt != salt:
            found.salt = None
        return found

    def _split(self, parent: Piece, lower: Piece, pages: int) -> Piece:
        upper = Piece(lower.keys[: pages * KEY_BYTES], lower.label, lower.salt)
        upper.requests, upper.known, upper.cached = lower.requests, lower.known, lower.cached
        upper.used = lower.used
        lower.keys, lower.label = lower.keys[pages * KEY_BYTES :], ""
        upper.children[lower.keys[:KEY_BYTES]] = lower
        parent.children[upper.keys[:KEY_BYTES]] = upper
        self._pieces += 1
        return upper

    def _bound(self) -> None:
        """Once there is too much, puts together a quarter, so that it is seldom done."""
        if self._pieces <= _KEPT_NODES and self._pages <= _KEPT_PAGES:
            return
        # Nothing is used later than what is above it: so whole ends of prompts go.
        used = sorted(piece.used for piece in pieces(self._root))
        self._fold(lambda piece: piece.used <= used[len(used) // 4])
        if self._pages > _KEPT_PAGES:
            self._fold(lambda piece: True)

    def _fold(self, unwanted: Callable[[Piece], bool]) -> None:
        """Puts together what is unwanted, with all below it."""
        waiting = [self._root]
        while waiting:
            piece = waiting.pop()
            for key, child in list(piece.children.items()):
                if unwanted(child):
                    self._absorb(piece, piece.children.pop(key))
                else:
                    waiting.append(child)

    def _absorb(self, parent: Piece, gone: Piece) -> None:
        for piece in pieces(gone):
            parent.other.add(piece.passed(self._page_tokens))
            parent.other.add(piece.ends)
            parent.other.add(piece.other)
            self._pieces -= 1
            self._pages -= piece.pages
