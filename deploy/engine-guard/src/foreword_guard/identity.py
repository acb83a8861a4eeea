"""What a tier started by `foreword_guard.tier` says about itself, in words both halves share. Pure.

LMCache's `ping` answers True to an engine that it has never seen, so a server that was restarted
quickly looks like the old one. The tier therefore adds two kinds of entry to the list of strings
that `get_experimental` returns (lmcache/v1/multiprocess/modules/management.py:151, 0.5.6):

    foreword.boot=<hex>        another one after each start
    foreword.instance=<int>    one for each engine that is registered now
"""

from collections.abc import Iterable
from dataclasses import dataclass

_BOOT = "foreword.boot="
_INSTANCE = "foreword.instance="


@dataclass(frozen=True, slots=True, kw_only=True)
class TierIdentity:
    """Which server answered, and whom it knows; boot is None for a server that isn't ours."""

    boot: str | None
    instances: frozenset[int]

    def to_entries(self) -> list[str]:
        """The entries that the tier adds."""
        boot = [] if self.boot is None else [_BOOT + self.boot]
        return boot + [f"{_INSTANCE}{instance}" for instance in sorted(self.instances)]

    @classmethod
    def from_entries(cls, entries: Iterable[str]) -> "TierIdentity":
        """Read them back; entries that aren't ours are skipped."""
        boot: str | None = None
        instances: set[int] = set()
        for entry in entries:
            if entry.startswith(_BOOT):
                boot = entry.removeprefix(_BOOT)
            elif entry.startswith(_INSTANCE):
                instances.add(int(entry.removeprefix(_INSTANCE)))
        return cls(boot=boot, instances=frozenset(instances))

    def knows(self, instance: int, *, registered_at: str | None) -> bool | None:
        """Whether the engine that registered with that boot still is; None: can't tell."""
        if self.boot is None:
            return None
        return self.boot == registered_at and instance in self.instances
