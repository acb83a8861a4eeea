"""How far the files that are being ingested have come, kept in memory: a restart begins anew."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from retrieval.records import CollectionFile, FileStatus, IngestProgress, IngestStage


@dataclass(slots=True)
class Progress:
    """Written by the one thread that works on the file."""

    stage: IngestStage = IngestStage.WAITING
    done: int = 0
    total: int | None = None


class ProgressBoard:
    """The progress of all files being worked on. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: dict[tuple[str, str], Progress] = {}
        self._problems: dict[tuple[str, str], str] = {}

    @contextmanager
    def shown(self, collection_id: str, file_id: str) -> Iterator[Progress]:
        """A progress that others can see while the block runs."""
        progress = Progress()
        with self._lock:
            self._shown[collection_id, file_id] = progress
        try:
            yield progress
        finally:
            with self._lock:
                if self._shown.get((collection_id, file_id)) is progress:
                    del self._shown[collection_id, file_id]

    def waits(self, collection_id: str, file_id: str, problem: str) -> None:
        """The file has to wait for something that is no fault of its own."""
        with self._lock:
            self._problems[collection_id, file_id] = problem

    def goes_on(self, collection_id: str, file_id: str) -> None:
        """It waits no longer, whatever became of it."""
        with self._lock:
            self._problems.pop((collection_id, file_id), None)

    def of(self, file: CollectionFile) -> IngestProgress:
        """How far a file has come, whatever its state."""
        with self._lock:
            progress = self._shown.get((file.collection_id, file.file_id))
            problem = self._problems.get((file.collection_id, file.file_id))
        if file.status is not FileStatus.IN_PROGRESS:
            count = file.chunk_count
            return IngestProgress(stage=IngestStage.ENDED, done_chunks=count, total_chunks=count)
        if progress is None:
            return IngestProgress(
                stage=IngestStage.WAITING, done_chunks=0, total_chunks=None, problem=problem
            )
        return IngestProgress(
            stage=progress.stage, done_chunks=progress.done, total_chunks=progress.total
        )
