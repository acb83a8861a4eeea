"""One embedding process, as its owner sees it."""

import socket
from typing import TypeVar

import msgspec
import numpy as np

from retrieval import embed_wire
from retrieval.embed import Vectors
from retrieval.embed_models import EmbeddingModel
from retrieval.errors import EmbedderUnavailableError
from retrieval.model_process import MODEL_START_S, start_model_process

_WORKER = "retrieval.embed_worker"
_BATCH_S = 300.0

_Said = TypeVar("_Said")


class ChildDiedError(Exception):
    """The process ended or doesn't answer; says which."""


class BatchFailedError(Exception):
    """The process lives and can't embed these texts; says why."""


class EmbedChild:
    """One running process and the socket to it, for one thread; `kill` is for any.

    Attributes:
        dimension: of the vectors; 0 until the model is loaded.
    """

    def __init__(self, model: EmbeddingModel, threads: int) -> None:
        """Raises:
        EmbedderUnavailableError: no process can be started.
        """
        self.dimension = 0
        self._model_id = model.id
        self._channel, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = start_model_process(
                    _WORKER, theirs, [str(model.folder), model.id], threads=threads
                )
        except OSError as exc:
            self._channel.close()
            raise EmbedderUnavailableError(
                model.id, f"its process can't be started ({exc})."
            ) from exc

    def wait_until_ready(self) -> None:
        """Waits while the model is loaded; again is no work.

        Raises:
            EmbedderUnavailableError: the model can't be loaded.
            ChildDiedError: it ended while it loaded the model.
        """
        if self.dimension:
            return
        ready = self._said(embed_wire.Ready, MODEL_START_S)
        if ready.problem is not None:
            raise EmbedderUnavailableError(self._model_id, ready.problem)
        self.dimension = ready.dimension

    @property
    def process_id(self) -> int:
        return self._process.pid

    def embed(self, texts: list[str], *, is_query: bool) -> Vectors:
        """(n, d), rows L2-normalised.

        Raises:
            ChildDiedError, BatchFailedError
        """
        ask = msgspec.json.encode(embed_wire.Ask(texts=texts, is_query=is_query))
        try:
            self._channel.settimeout(_BATCH_S)
            embed_wire.send(self._channel, ask)
        except OSError as exc:
            raise self._died() from exc
        reply = self._said(embed_wire.Reply, _BATCH_S)
        if reply.problem is not None:
            raise BatchFailedError(reply.problem)
        data = np.frombuffer(self._received(_BATCH_S), dtype="<f4")
        if (reply.rows, reply.rows * reply.dimension) != (len(texts), data.size):
            raise self._died()
        return data.reshape(reply.rows, reply.dimension).astype(np.float32, copy=False)

    def kill(self) -> None:
        """Kills the process; its reader finds out by the socket's end."""
        self._process.kill()

    def end(self) -> None:
        """Kills the process and waits until it has gone."""
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def _said(self, kind: type[_Said], timeout_s: float) -> _Said:
        try:
            return msgspec.json.decode(self._received(timeout_s), type=kind)
        except msgspec.DecodeError as exc:
            raise self._died() from exc

    def _received(self, timeout_s: float) -> bytes:
        try:
            self._channel.settimeout(timeout_s)
            return embed_wire.receive(self._channel)
        except TimeoutError as exc:
            self.end()
            raise ChildDiedError(f"didn't answer within {timeout_s:g} s") from exc
        except (EOFError, OSError) as exc:
            raise self._died() from exc

    def _died(self) -> ChildDiedError:
        self.end()
        return ChildDiedError(f"ended with exit status {self._process.returncode}")
