"""Re-ranking: a model that reads question and chunk together puts the best candidates in order.

It runs in a process of its own: torch holds on to cores and memory, and a model that dies or hangs
takes no search of others with it.
"""

import math
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

import msgspec

from retrieval import embed_wire
from retrieval.errors import RerankerError
from retrieval.model_process import MODEL_START_S, start_model_process
from retrieval.rerank_wire import Ask, Ready, Scores

_WORKER = "retrieval.rerank_worker"
_TRIES = 2

_Said = TypeVar("_Said")


class Reranker(Protocol):
    """Scores chunks for a question. Safe for several threads."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """One finite score for each text, higher is better.

        Raises:
            RerankerError
        """
        ...


class ProcessReranker:
    """A sentence-transformers CrossEncoder; close it after use.

    Its process is started at first use, and again when it has died. One question at a time: the
    model's threads are what is scarce.

    Args:
        model: folder of a model, or the name of one that is in the Hugging Face cache already;
            nothing is downloaded.
        threads: CPU threads of the model.
        timeout_s: the longest that one question's candidates may take.
    """

    def __init__(self, model: str | Path, *, threads: int = 1, timeout_s: float = 60.0) -> None:
        self._model = str(model)
        self._threads = threads
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._is_closed = False

    def __enter__(self) -> "ProcessReranker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def process_id(self) -> int | None:
        """Of the model's process, while there is one."""
        child = self._child
        return None if child is None else child.process_id

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker`."""
        if not texts:
            return []
        with self._lock:
            for _ in range(_TRIES):
                try:
                    return self._ready_child().scores(query, texts, self._timeout_s)
                except (EOFError, OSError):  # it died, or hangs: a new one is asked once more
                    self._end_child()
        raise RerankerError(
            self._model, "its process died or didn't answer in time; look for free memory."
        )

    def close(self) -> None:
        """Ends the process; whoever waits gets an error."""
        self._is_closed = True
        child = self._child
        if child is not None:
            child.kill()
        with self._lock:
            self._end_child()

    def _ready_child(self) -> "_Child":
        if self._is_closed:
            raise RerankerError(self._model, "it was closed.")
        if self._child is None:
            self._child = _Child(self._model, self._threads)
            ready = self._child.ready()
            if ready.problem is not None:
                self._end_child()
                raise RerankerError(self._model, ready.problem)
        return self._child

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


class _Child:
    """One running process and the socket to it, for one thread; `kill` is for any."""

    def __init__(self, model: str, threads: int) -> None:
        self._model = model
        self._channel, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = start_model_process(_WORKER, theirs, [model], threads=threads)
        except OSError:
            self._channel.close()
            raise

    @property
    def process_id(self) -> int:
        return self._process.pid

    def ready(self) -> Ready:
        """Waits until the model is loaded, or can't be.

        Raises:
            EOFError, OSError: the process ended, or hangs.
        """
        return self._said(Ready, MODEL_START_S)

    def scores(self, query: str, texts: Sequence[str], timeout_s: float) -> list[float]:
        """See `Reranker`.

        Raises:
            EOFError, OSError: the process ended, or hangs.
        """
        embed_wire.send(self._channel, msgspec.json.encode(Ask(query=query, texts=list(texts))))
        said = self._said(Scores, timeout_s)
        if said.problem is not None:
            raise RerankerError(self._model, said.problem)
        if len(said.scores) != len(texts) or not all(map(math.isfinite, said.scores)):
            raise RerankerError(self._model, "it gives no score for some chunk.")
        return said.scores

    def kill(self) -> None:
        """Kills the process; its reader finds out by the socket's end."""
        self._process.kill()

    def end(self) -> None:
        """Kills the process and waits until it has gone."""
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def _said(self, kind: type[_Said], timeout_s: float) -> _Said:
        self._channel.settimeout(timeout_s)
        try:
            return msgspec.json.decode(embed_wire.receive(self._channel), type=kind)
        except msgspec.DecodeError as exc:
            raise EOFError from exc
