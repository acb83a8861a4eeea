"""A streamed answer on its way from the engine's events to the client's, read by read.

Nothing here waits, so that it can be called from where the engine's bytes are read.
"""

from collections.abc import Callable

from app.accounting import RequestAccounting
from app.accounts import Account
from app.answers import PartReader, learn_usage, public_part, says_something, usual_parts
from app.completions import AnswerRequest
from app.errors import AnswerError
from app.hot.chunks import ChunkWriter
from app.hot.plain_chunks import PlainChunks
from app.stream_forms import StreamForm


class Passage:
    """One answer's events.

    Attributes:
        last: what the read with the last event brought: it goes with the answer's end.
    """

    def __init__(
        self,
        accounting: RequestAccounting,
        request: AnswerRequest,
        account: Account,
        form: StreamForm,
    ) -> None:
        self.last = b""
        self._accounting = accounting
        self._request = request
        self._account = account
        self._form = form
        self._reader = PartReader(account.engine_url)
        self._usual = usual_parts(request, account, form)
        self._pieces: list[bytes] = []

    @property
    def ended(self) -> bool:
        """Whether the last event has come."""
        return self._reader.ended

    def take(self, data: bytes | None) -> bytes:
        """What a read is for the client, perhaps nothing; None is the end of the engine's bytes.

        Raises:
            EngineError: it said that it failed, or what it said can't be understood.
        """
        usual, pieces, account = self._usual, self._pieces, self._account
        for each in self._reader.events(data):
            passed = None if usual is None else usual.passed_on(each)
            if passed is not None:
                piece, said = passed
                account.spoken.add(said)
                pieces.append(piece)
                says = bool(said.get("content") or said.get("reasoning_content"))
            else:
                says = self._take_apart(each)
            if says and account.first_content():
                self._accounting.first_token(account)
        public = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self.ended:
            self.last, public = public, b""
        return public

    def into(self, writer: ChunkWriter) -> Callable[[bytes], bool]:
        """Takes reads, and writes what they are for the client; False: no more of them now."""

        def take(data: bytes) -> bool:
            public = self.take(data)
            if public and not writer.write(public):
                return False
            return not self._reader.ended

        return take

    def straight_into(self, writer: ChunkWriter) -> Callable[[bytes], bool | None] | None:
        """Takes reads in the body's framing that begin and end with a chunk, and writes them on.

        It says None, and has taken nothing, where a read is to be taken apart. There is no such
        function for a stream whose chunks aren't passed on as they are.
        """
        if self._usual is None:
            return None
        plain, reader, account = PlainChunks(self._usual), self._reader, self._account

        def take(data: bytes) -> bool | None:
            passed = None if reader.is_within_an_event else plain.passed_on(data)
            if passed is None:
                return None
            chunks, size, texts = passed
            goes_on = writer.write_framed(chunks, size)
            account.spoken.say(texts)
            pieces = len(texts) - texts.count("")
            if pieces and account.first_content(pieces):
                self._accounting.first_token(account)
            return goes_on

        return take

    def failed(self, error: AnswerError) -> bytes:
        """How it breaks off, after what came before."""
        return b"".join([*self._pieces, self._form.failed(error)])

    def learn_usage(self) -> None:
        """Keep what chunks that were passed on said of the request's tokens."""
        learn_usage(self._usual, self._account)

    def _take_apart(self, data: bytes) -> bool:
        """An event in no usual form; whether the model says something in it."""
        self.learn_usage()
        public = public_part(self._account, self._request, self._reader.part(data))
        if public is None:
            return False
        says = says_something(public)
        self._pieces.append(self._form.part(public))
        if self._usual is not None:
            self._usual.met(data)
        return says
