"""How the stack tells a person what it is doing."""

from collections.abc import Callable

Say = Callable[[str], None]
"""Takes one line of progress."""


def silent(_line: str) -> None:
    """For callers with nobody to tell."""
