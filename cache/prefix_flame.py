"""The tree in which served prompts are counted by their openings.

It stands beside the prefix index and lasts when the index forgets pages; it doesn't know what is
cached where.
"""

from collections.abc import Callable, Sequence

from cache.flame import FlameNode
from cache.page_keys import KEY_BYTES, PageKeys, shared_pages
from cache.prefix_flame_pieces import Piece, export, pieces

_KEPT_NODES = 4096
# From here on, what was served once and bears no name is put together at once, not when it is old.
_CROWDED_NODES = 2048
_KEPT_PAGES = 200_000
_LABELS_A_PAGE = 3
_MOST_LABELS = 256  # of one prompt
_NO_NAMES: Sequence[str] = ()


class Flame:
    """Counts served prompts by their openings; the least recently used ends are put together."""

    def __init__(self, *, page_tokens: int, crowded_nodes: int = _CROWDED_NODES) -> None:
        self._page_tokens = page_tokens
        self._crowded_nodes = crowded_nodes
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
        # All in one place: it is done for each prompt, and calls are most of what it takes.
        clock = self._clock = self._clock + 1
        size, packed = self._page_tokens, keys.packed
        pages, known = len(packed) // KEY_BYTES, cached_tokens is not None
        cached_tokens = cached_tokens or 0
        cached_pages = min(cached_tokens // size, pages)
        names: dict[int, list[str]] = {}  # by the page that they begin in
        for start, text in labels[:_MOST_LABELS]:
            of_page = names.get(start // size)
            if of_page is None:
                names[start // size] = [text]
            elif text not in of_page and len(of_page) < _LABELS_A_PAGE:
                of_page.append(text)
        piece, page, is_cut_off = self._root, 0, False
        is_crowded = self._pieces >= self._crowded_nodes
        piece.used = clock
        piece.requests += 1
        piece.known += known
        for cut in sorted({*names, cached_pages, pages}):
            stop = min(cut, pages)
            while page < stop and not is_cut_off:
                at, end = page * KEY_BYTES, stop * KEY_BYTES
                found = piece.children.get(packed[at : at + KEY_BYTES])
                is_last = stop == pages and page >= cached_pages and page not in names
                if is_last and is_crowded and found is None:
                    is_cut_off = True
                    break
                if (
                    found is None
                    or packed[at : min(end, at + len(found.keys))] != found.keys
                    or (found.salt is not None and found.salt != salt)
                    or (not found.label and page in names)
                ):
                    found = self._next(piece, packed, page, stop, names.get(page, _NO_NAMES), salt)
                piece = found
                page += len(piece.keys) // KEY_BYTES
                piece.used = clock
                piece.requests += 1
                piece.known += known
                piece.cached += known and page <= cached_pages
        end, ends = max(0, prompt_tokens - page * size), piece.other if is_cut_off else piece.ends
        ends.requests += 1
        ends.served += end
        ends.known += end if known else 0
        ends.cached += min(end, cached_tokens - cached_pages * size)
        if self._pieces > _KEPT_NODES or self._pages > _KEPT_PAGES:
            self._shrink()

    def forget(self, salt: str) -> None:
        """Puts together what only this salt's prompts had, so that its labels are gone."""
        self._fold(lambda piece: piece.salt == salt)

    def export(self, *, max_nodes: int) -> FlameNode:
        """The tree of the most served pieces; smaller ones are put together as `OTHER`."""
        return export(self._root, page_tokens=self._page_tokens, max_nodes=max_nodes)

    def _next(
        self, piece: Piece, packed: bytes, page: int, stop: int, names: Sequence[str], salt: str
    ) -> Piece:
        """The piece after one, that ends at page `stop` at the latest; a new one if need be."""
        at, end = page * KEY_BYTES, stop * KEY_BYTES
        found = piece.children.get(packed[at : at + KEY_BYTES])
        if found is None:
            keys = packed[at:end]
            found = piece.children[keys[:KEY_BYTES]] = Piece(keys, " · ".join(names), salt)
            self._pieces += 1
            self._pages += stop - page
            return found
        keys, length = found.keys, len(found.keys)
        shared = min(shared_pages(keys, 0, packed, page), stop - page)
        if shared * KEY_BYTES < length:
            found = self._split(piece, found, shared)
        if names and not found.label:
            found.label = " · ".join(names)
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

    def _shrink(self) -> None:
        """There is too much: puts together a quarter, so that it is seldom done."""
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
