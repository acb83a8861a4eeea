"""What the latest prompts began with, so that a replica that joins can compute it beforehand.

Only the operator's own text is kept (a template's leading static segments), each under the salt
that its requests had: KV of another salt would be of no use.
"""

from collections import OrderedDict
from dataclasses import dataclass

from app.prepared import Prepared

_MOST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Token ids that many prompts begin with, and the salt that they were sent with."""

    salt: str
    token_ids: tuple[int, ...]


class Openings:
    """The latest few that differ. One event loop owns it."""

    def __init__(self) -> None:
        self._latest: OrderedDict[tuple[str, str, str | None], Opening] = OrderedDict()

    def __len__(self) -> int:
        return len(self._latest)

    def answered(self, prepared: Prepared) -> None:
        """A prompt was answered."""
        if prepared.prompt is None or prepared.adapter is not None:
            return
        key = (prepared.salt, prepared.template, prepared.rendered.fingerprint)
        if key in self._latest:
            self._latest.move_to_end(key)
            return
        token_ids = prepared.prompt.token_ids[: prepared.scaffold_tokens]
        self._latest[key] = Opening(salt=prepared.salt, token_ids=token_ids)
        if len(self._latest) > _MOST:
            self._latest.popitem(last=False)

    def latest(self) -> list[Opening]:
        """Those with any tokens, the latest first."""
        return [opening for opening in reversed(self._latest.values()) if opening.token_ids]

    def forget_salt(self, salt: str) -> None:
        """A salt is never used again."""
        for key in [key for key in self._latest if key[0] == salt]:
            del self._latest[key]
