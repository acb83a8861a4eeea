"""Whether the gateway still waits for what is under way."""


class Stopping:
    """Set once; what is cancelled from then on was cut by the gateway, not left by its client."""

    __slots__ = ("is_cut",)

    def __init__(self) -> None:
        self.is_cut = False

    def cut(self) -> None:
        """It waits no longer."""
        self.is_cut = True
