"""Where two prompts part."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from foreword_pytest.prompt import FlatPrompt, Part

_NOTHING = Part(where="the end", text="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first difference of two prompts.

    `first` and `second` are the parts that differ, `offset` is the place in them; `shared` of the
    `of` units (characters, or tokens) that should be the same are.
    """

    first: Part
    second: Part
    offset: int
    shared: int
    of: int

    @property
    def where(self) -> str:
        """The part's name, as the first prompt has it."""
        return self.first.where if self.first is not _NOTHING else self.second.where


def divergence(first: FlatPrompt, second: FlatPrompt, of: int) -> Divergence | None:
    """The first difference; None if one begins with the other, as the parts of a prompt go.

    That parts come in another shape (a message more, or another role) is a difference too.
    """
    shared = 0
    for one, other in zip_longest(first.parts, second.parts, fillvalue=_NOTHING):
        if one.text == other.text and one.role == other.role:
            shared += len(one.text)
            continue
        same_role = one.role == other.role
        offset = common_length(one.text, other.text) if same_role else 0
        return Divergence(first=one, second=other, offset=offset, shared=shared + offset, of=of)
    return None


def common_length(first: Sequence[object], second: Sequence[object]) -> int:
    """Length of the common beginning of two texts, or lists of token ids."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
