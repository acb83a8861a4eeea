"""The ingest queue: threads that bring waiting files into their collections, across restarts.

The queue itself is in the database (`retrieval.ingest_store`); nothing here has to survive. The
files of one collection are ingested one after another in the order they came, so that the order of
documents doesn't depend on which thread was faster; different collections go side by side, the
one that was served longest ago first.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Engine

from retrieval import file_store, ingest_store, store
from retrieval.errors import (
    CollectionNotFoundError,
    EmbedderError,
    EmbedderUnavailableError,
    IndexManifestError,
    ParserUnavailableError,
    RetrievalError,
    StorageError,
    StoredFileNotFoundError,
)
from retrieval.ingest import Ingester
from retrieval.ingest_progress import ProgressBoard
from retrieval.ingest_store import Job
from retrieval.ingest_wish import IngestStoppedError, NotWaitedForError, Wish
from retrieval.records import FileError
from retrieval.transactions import transaction

MAX_ATTEMPTS = 3
# Another process may have put files into the database.
_LOOK_AGAIN_S = 5.0
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
_STOP_S = 30.0
# When so many wait, what they wait for isn't theirs alone: no more are tried for nothing.
_MOST_PAUSED = 100
# No file's fault: it waits for as long as that lasts, and no attempt is counted.
_UNAVAILABLE = (EmbedderUnavailableError, ParserUnavailableError, StorageError)
_GONE = (CollectionNotFoundError, StoredFileNotFoundError, NotWaitedForError)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pause:
    """When a file is tried again, and how long the pause is."""

    until: float
    seconds: float


class IngestQueue:
    """Works the queue off between `start` and `stop`. Safe for several threads.

    Attributes:
        problem: why files wait that could be ingested otherwise; None when all is well.
    """

    def __init__(
        self,
        engine: Engine,
        ingester: Ingester,
        *,
        board: ProgressBoard | None = None,
        workers: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._ingester = ingester
        self._board = board or ProgressBoard()
        self._workers = workers
        self._clock = clock
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._is_stopping = threading.Event()
        self._busy: set[str] = set()  # collections
        self._served: dict[str, float] = {}
        self._pauses: dict[int, _Pause] = {}
        self.problem: str | None = None

    def start(self) -> None:
        """Starts the threads; what an earlier process left waiting is taken up."""
        self._is_stopping.clear()
        for number in range(self._workers):
            thread = threading.Thread(target=self._work, name=f"ingest-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def begin_stop(self) -> None:
        """Makes the threads end as soon as they can."""
        self._is_stopping.set()
        self.wake()

    def stop(self) -> None:
        """Ends the threads; a file being worked on is taken up again at the next start."""
        self.begin_stop()
        for thread in self._threads:
            thread.join(_STOP_S)
        self._threads.clear()

    def wake(self) -> None:
        """Says that files were put into the queue."""
        with self._changed:
            self._changed.notify_all()

    def _work(self) -> None:
        while not self._is_stopping.is_set():
            job = self._take()
            if job is None:
                continue
            try:
                self._run(job)
            finally:
                self._release(job)

    def _take(self) -> Job | None:
        """The next file whose turn it is; None when there was none for a while."""
        with self._changed:
            job = None
            try:
                job = self._next()
            except StorageError as error:
                self.problem = str(error)
            else:
                if not self._pauses:
                    self.problem = None  # the database was away, and answers again
            if job is None:
                self._changed.wait(self._idle_s())
                return None
            self._busy.add(job.collection_id)
            return job

    def _next(self) -> Job | None:
        now = self._clock()
        paused = [serial for serial, pause in self._pauses.items() if pause.until > now]
        if len(paused) >= _MOST_PAUSED:
            return None
        with transaction(self._engine) as connection:
            heads = ingest_store.heads_of_queue(connection, paused)
        waiting = {job.collection_id for job in heads}
        self._served = {c: at for c, at in self._served.items() if c in waiting}
        free = [job for job in heads if job.collection_id not in self._busy]
        if not free:
            return None
        return min(free, key=lambda job: (self._served.get(job.collection_id, 0.0), job.serial))

    def _idle_s(self) -> float:
        now = self._clock()
        ends = [pause.until - now for pause in self._pauses.values() if pause.until > now]
        return min([_LOOK_AGAIN_S, *ends])

    def _release(self, job: Job) -> None:
        with self._changed:
            self._busy.discard(job.collection_id)
            self._served[job.collection_id] = self._clock()
            self._changed.notify_all()

    def _run(self, job: Job) -> None:
        try:
            with transaction(self._engine) as connection:
                attempt = ingest_store.begin_attempt(connection, job)
            if attempt is None:
                return
            if attempt > MAX_ATTEMPTS:
                self._fail(job, f"it was tried {MAX_ATTEMPTS} times and cut off each time")
                return
            self._attempt(job, attempt)
        except _GONE:
            self._forget(job)
        except _UNAVAILABLE as error:
            self._pause(job, error)
            with suppress(StorageError):
                self._undo(job)

    def _attempt(self, job: Job, attempt: int) -> None:
        wish = Wish(queued=True, stopping=self._is_stopping.is_set)
        try:
            self._ingester.add_file(job.collection_id, job.file_id, tenant=job.tenant, wish=wish)
        except IngestStoppedError:
            self._undo(job)
        except (*_UNAVAILABLE, *_GONE):
            raise
        except EmbedderError as error:  # it may be better at the next attempt
            if attempt < MAX_ATTEMPTS:
                self._pause(job, error)
            else:
                self._fail(job, str(error))
        except RetrievalError as error:
            code = "embedder_mismatch" if isinstance(error, IndexManifestError) else "server_error"
            self._fail(job, str(error), code=code)
        except Exception as error:  # noqa: BLE001 - the boundary of a worker thread
            _log.exception("ingesting %s into %s failed", job.file_id, job.collection_id)
            self._fail(job, f"an unexpected {type(error).__name__}; the log has the details")
        else:
            self._forget(job)

    def _fail(self, job: Job, why: str, *, code: str = "server_error") -> None:
        with transaction(self._engine) as connection:
            collection = store.select_collection(connection, job.collection_id, job.tenant)
            file = file_store.select_file(connection, job.file_id, job.tenant)
        error = FileError(code=code, message=f"{file.name!r} was not ingested: {why}")
        self._ingester.note_failure(collection, file, error, Wish(queued=True))
        self._forget(job)

    def _undo(self, job: Job) -> None:
        with transaction(self._engine) as connection:
            ingest_store.undo_attempt(connection, job)

    def _forget(self, job: Job) -> None:
        self._board.goes_on(job.collection_id, job.file_id)
        with self._changed:
            self._pauses.pop(job.serial, None)
            if not self._pauses:
                self.problem = None

    def _pause(self, job: Job, error: RetrievalError) -> None:
        """The file waits, each time longer; those behind it go on."""
        _log.warning("ingesting %s into %s waits: %s", job.file_id, job.collection_id, error)
        self._board.waits(job.collection_id, job.file_id, str(error))
        with self._changed:
            before = self._pauses.get(job.serial)
            seconds = min(_LONGEST_WAIT_S, 4 * before.seconds) if before else _FIRST_WAIT_S
            self._pauses[job.serial] = _Pause(self._clock() + seconds, seconds)
            self.problem = str(error)
