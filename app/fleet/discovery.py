"""Which replicas there should be: a list, a DNS name, or a Kubernetes service.

A source that can't be asked changes nothing: its last answer stands, and `problem` says why.
"""

from collections.abc import Iterable
from typing import Protocol


class Discovery(Protocol):
    """Tells the replicas' base URLs."""

    @property
    def problem(self) -> str | None:
        """Why the last look failed; None where it didn't."""
        ...

    async def look(self) -> frozenset[str]:
        """The base URLs as of now; those of the last good look where the source can't be asked.

        Bounded in time. Never raises for what a server or network does.
        """
        ...

    async def aclose(self) -> None:
        """Drop connections."""
        ...


class StaticDiscovery:
    """A list that doesn't change."""

    problem: str | None = None

    def __init__(self, urls: Iterable[str]) -> None:
        self._urls = frozenset(url.rstrip("/") for url in urls)

    async def look(self) -> frozenset[str]:
        """The list."""
        return self._urls

    async def aclose(self) -> None:
        """Nothing to drop."""
