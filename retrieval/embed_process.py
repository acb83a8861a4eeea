"""A sentence-transformers model in a process of its own.

The owner stays small (torch is never imported there) and goes on when the model's process is
killed, for lack of memory say: it is started again, and what it was computing is asked again, each
text alone, so that only a text that kills it fails.
"""

import threading
import time
from collections.abc import Sequence

import numpy as np
import tokenizers

from retrieval.embed import Vectors
from retrieval.embed_batches import EmbedRequest, Item, MicroBatcher
from retrieval.embed_child import BatchFailedError, ChildDiedError, EmbedChild
from retrieval.embed_models import EmbeddingModel, open_tokenizer, token_count
from retrieval.errors import EmbedderBusyError, EmbedderError, EmbedderUnavailableError

# A query waits for at most about this much computing of passages.
_PASSAGES_S = 0.5
_FIRST_CHARS = 4096
_MAX_DEATHS = 3
_MAX_FAILURES = 3


class ProcessEmbedder:
    """An embedder for many threads; close it after use.

    The process is started at first use, by a thread that also puts the texts of all callers
    together. Callers with passages wait while many texts wait already.

    Args:
        threads: CPU threads of the model.
        max_waiting: texts beyond which callers with passages have to wait before theirs are taken.
        max_queries: queries beyond which more are refused.
        query_s: the longest that a query waits, the model's loading included.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        *,
        threads: int = 1,
        max_waiting: int = 1024,
        max_queries: int = 256,
        query_s: float = 120.0,
    ) -> None:
        self.id = model.id
        self._model = model
        self._dimension = model.dimension
        self._threads = threads
        self._max_waiting = max_waiting
        self._max_queries = max_queries
        self._query_s = query_s
        self._changed = threading.Condition()
        self._waiting = MicroBatcher()
        self._is_closed = False
        self._dispatcher: threading.Thread | None = None
        self._child: EmbedChild | None = None
        self._deaths = 0
        self._chars_per_s = 0.0
        self._counter: tokenizers.Tokenizer | None = None

    @property
    def dimension(self) -> int:
        """d. Where the files don't tell, the model is loaded to be asked."""
        if self._dimension is None:
            self._dimension = self.embed_query("dimension").shape[1]
        return self._dimension

    @property
    def process_id(self) -> int | None:
        """Of the model's process, while there is one."""
        child = self._child
        return None if child is None else child.process_id

    def warm(self) -> None:
        """Begins to load the model if nobody has yet, and returns at once.

        What goes wrong is told to whoever needs it.
        """
        with self._changed:
            if self._dispatcher is None:
                self._enter(EmbedRequest(["warm"], is_query=True))

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        request = EmbedRequest(list(texts), is_query=False)
        with self._changed:
            while len(self._waiting) >= self._max_waiting and not self._is_closed:
                self._changed.wait()
            self._enter(request)
        request.done.wait()
        return request.vectors()

    def embed_query(self, text: str) -> Vectors:
        """See `Embedder`.

        Raises:
            EmbedderBusyError: too many queries wait, or this one did for too long.
        """
        request = EmbedRequest([text], is_query=True)
        with self._changed:
            if self._waiting.queries >= self._max_queries:
                raise EmbedderBusyError(
                    self.id, f"{self._max_queries} queries wait for it; ask again later."
                )
            self._enter(request)
        if not request.done.wait(self._query_s):
            request.fail(
                EmbedderBusyError(
                    self.id, f"it didn't answer within {self._query_s:g} s; ask again later."
                )
            )
        return request.vectors()

    def count_tokens(self, text: str) -> int:
        """Tokens of a text as the model reads it, its start and end marks left out.

        Needs no process; threads may share it.
        """
        if self._counter is None:
            self._counter = open_tokenizer(self.id, self._model.folder)
        return token_count(self._counter, text)

    def close(self) -> None:
        """Ends the process; whoever waits gets an error."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            if self._child is not None:
                self._child.kill()  # so that the dispatcher doesn't wait for a batch
            dispatcher = self._dispatcher
        if dispatcher is not None:
            dispatcher.join()

    def _enter(self, request: EmbedRequest) -> None:
        """Called with the lock held."""
        if self._is_closed:
            raise EmbedderUnavailableError(self.id, "it was closed.")
        if self._dispatcher is None:
            self._dispatcher = threading.Thread(target=self._dispatch, name="embedder", daemon=True)
            self._dispatcher.start()
        self._waiting.add(request)
        self._changed.notify_all()

    def _dispatch(self) -> None:
        try:
            while (batch := self._next_batch()) is not None:
                self._answer(batch)
        finally:
            self._end_child()
            with self._changed:
                self._is_closed = True
                self._fail_all(EmbedderUnavailableError(self.id, "it was closed."))
                self._changed.notify_all()

    def _next_batch(self) -> list[Item] | None:
        """The next texts; None once closed."""
        with self._changed:
            while not self._is_closed:
                max_chars = int(self._chars_per_s * _PASSAGES_S) or _FIRST_CHARS
                batch = self._waiting.next_batch(max_chars)
                if batch:
                    self._changed.notify_all()  # callers may wait for room
                    return batch
                self._changed.wait()
            return None

    def _answer(self, batch: list[Item]) -> None:
        try:
            vectors = self._computed([item.text for item in batch], is_query=batch[0].is_query)
        except ChildDiedError as error:
            self._survive(batch, error)
        except BatchFailedError as error:
            self._try_again(batch, str(error))
        except EmbedderError as error:  # the model can't be loaded
            self._end_child()
            self._give_up(batch, error)
        else:
            self._deaths = 0
            for item, vector in zip(batch, vectors, strict=True):
                item.request.put(item.index, vector)

    def _computed(self, texts: list[str], *, is_query: bool) -> Vectors:
        child = self._ready_child()
        began = time.monotonic()
        vectors = child.embed(texts, is_query=is_query)
        if not is_query:
            padded = len(texts) * max(len(text) for text in texts)
            speed = padded / max(1e-6, time.monotonic() - began)
            self._chars_per_s = (
                0.7 * self._chars_per_s + 0.3 * speed if self._chars_per_s else speed
            )
        return vectors

    def _ready_child(self) -> EmbedChild:
        """Raises EmbedderError: it can't be had; ChildDiedError: it ended while it loaded."""
        with self._changed:
            if self._child is None:
                self._child = EmbedChild(self._model, self._threads)
            child = self._child
            if self._is_closed:
                child.kill()
        child.wait_until_ready()
        if self._dimension not in (None, child.dimension):
            raise EmbedderError(
                self.id, f"its vectors have {child.dimension} numbers, not {self._dimension}."
            )
        return child

    def _end_child(self) -> None:
        with self._changed:
            child, self._child = self._child, None
        if child is not None:
            child.end()

    def _survive(self, batch: list[Item], error: ChildDiedError) -> None:
        """The next batch gets a new process, but not for ever."""
        self._end_child()
        self._deaths += 1
        if self._is_closed:
            self._give_up(batch, EmbedderUnavailableError(self.id, "it was closed."))
        elif self._deaths > _MAX_DEATHS:
            self._deaths = 0
            why = f"its process {error}, {_MAX_DEATHS + 1} times; look for free memory."
            self._give_up(batch, EmbedderUnavailableError(self.id, why))
        else:
            self._try_again(batch, f"its process {error}")

    def _try_again(self, batch: list[Item], problem: str) -> None:
        """Each text alone, and not for ever."""
        error = EmbedderError(self.id, f"a text can't be embedded: {problem}.")
        with self._changed:
            for item in batch:
                if item.failures + 1 >= _MAX_FAILURES:
                    item.request.fail(error)
            self._waiting.put_back(batch)

    def _give_up(self, batch: list[Item], error: EmbedderError) -> None:
        """What goes wrong for this batch would for all that wait."""
        for item in batch:
            item.request.fail(error)
        with self._changed:
            self._fail_all(error)

    def _fail_all(self, error: EmbedderError) -> None:
        """Called with the lock held."""
        for request in self._waiting.drain():
            request.fail(error)
