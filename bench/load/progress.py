"""A bar on stderr; nothing where that isn't a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Bar:
    """Counts what has ended; drawing takes milliseconds, so it is done seldom."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("requests", total=total, failed="")
        self._ended = 0
        self._failed = 0

    def ended(self, *, ok: bool) -> None:
        """One more."""
        self._ended += 1
        self._failed += not ok

    def draw(self) -> None:
        """Show where it stands."""
        if self._progress.disable:
            return
        failed = f"{self._failed} failed" if self._failed else ""
        self._progress.update(self._task, completed=self._ended, failed=failed)
        self._progress.refresh()


@contextmanager
def progress_bar(total: int) -> Iterator[Bar]:
    """A bar while requests are sent."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[failed]}"),
        console=console,
        # A thread that draws would take the interpreter at moments that nobody chose.
        auto_refresh=False,
        disable=not console.is_terminal,
    ) as progress:
        bar = Bar(progress, total)
        yield bar
        bar.draw()
