"""Prompts to lengths and chained page hashes: with a tokenizer exactly, without one from bytes.

Without a tokenizer, four bytes of the prompt count as one token. As re-use is decided from the
first token on, that shifts where pages end but not which prompts share an opening.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from typing import NamedTuple, Protocol

from cache.request_log.table import LogPrompt, TextStore
from prompts import Message, PromptTokenizer
from prompts.chat_rope import Origin
from prompts.chat_shapes import Piece
from prompts.errors import ChatTemplateError
from prompts.shared_length import shared_length
from prompts.token_runs import ID_BYTES
from prompts.token_spans import Span

PAGE_HASH_BYTES = 8
BYTES_PER_TOKEN = 4
_ANSWER = b"<|im_start|>assistant\n"
_KEPT_BYTES = 96 << 20
# Text that is kept with the hashes of its pages, from so many characters on.
_OPENINGS_BYTES = 48 << 20
_LEAST_OPENING = 1_024
_MESSAGES_KEPT = 2_048
_TEXTS_KEPT = 4_096
_SHORT = 64
_KEPT_OVERHEAD = 400
_EMPTY = bytes(PAGE_HASH_BYTES)


class PageChain(NamedTuple):
    """A prompt's tokens and the hashes of its full pages, 8 bytes each, end to end.

    Each hash covers everything before it too.
    """

    tokens: int
    pages: bytes


class Measure(Protocol):
    """How long prompts are and what they share."""

    @property
    def exact(self) -> bool:
        """Whether tokens are the model's own and not estimated."""

    def chain(self, prompt: LogPrompt) -> PageChain:
        """The prompt, up to where the answer begins."""

    def chain_with_answer(self, prompt: LogPrompt, answer: int) -> PageChain:
        """The prompt followed by its answer, as the engine keeps it afterwards."""

    def shared_tokens(self, one: LogPrompt, other: LogPrompt) -> int:
        """Length of the longest common prefix of two prompts."""


def hash_pages(previous: bytes, data: bytes, page_bytes: int) -> bytes:
    """Chained hashes of the full pages of `data`, end to end; `previous` is the hash before."""
    hashes: list[bytes] = []
    for start in range(0, len(data) - page_bytes + 1, page_bytes):
        page = data[start : start + page_bytes]
        previous = blake2b(previous + page, digest_size=PAGE_HASH_BYTES).digest()
        hashes.append(previous)
    return b"".join(hashes)


class _State(NamedTuple):
    """A rendered opening: its length, the hashes it adds to its parent's, and what is left over."""

    num_bytes: int
    pages: bytes
    last: bytes
    rest: bytes

    def followed_by(self, data: bytes, page_bytes: int) -> "_State":
        """With more bytes behind it."""
        buffered = self.rest + data
        pages = hash_pages(self.last, buffered, page_bytes)
        return _State(
            self.num_bytes + len(data),
            pages,
            pages[-PAGE_HASH_BYTES:] or self.last,
            buffered[len(buffered) // page_bytes * page_bytes :],
        )


_START = _State(0, b"", _EMPTY, b"")


class ByteMeasure:
    """Estimates tokens from the bytes of a plain rendering, tools behind the system message.

    Openings that were met before are not rendered again.
    """

    exact = False

    def __init__(self, store: TextStore, *, page_size: int) -> None:
        self._store = store
        self._page_bytes = page_size * BYTES_PER_TOKEN
        self._states: dict[tuple[int, int], int] = {}
        self._kept: list[_State] = [_START]

    def chain(self, prompt: LogPrompt) -> PageChain:
        """The prompt, up to where the answer begins."""
        pages, state = self._opening(prompt)
        return self._ended([*pages, state.pages], self._next(state, _ANSWER))

    def chain_with_answer(self, prompt: LogPrompt, answer: int) -> PageChain:
        """The prompt followed by its answer."""
        pages, state = self._opening(prompt)
        return self._ended([*pages, state.pages], self._next(state, self._rendered(answer)))

    def _ended(self, pages: list[bytes], last: _State) -> PageChain:
        return PageChain(-(-last.num_bytes // BYTES_PER_TOKEN), b"".join([*pages, last.pages]))

    def shared_tokens(self, one: LogPrompt, other: LogPrompt) -> int:
        """Bytes that two prompts share, as tokens."""
        return shared_length(self._text(one), self._text(other)) // BYTES_PER_TOKEN

    def _text(self, prompt: LogPrompt) -> bytes:
        return b"".join([self._rendered(unit) for unit in self._units(prompt)]) + _ANSWER

    def _units(self, prompt: LogPrompt) -> Iterator[int]:
        """Messages by number and the tool list as a negative number, in prompt order."""
        heads = 1 if prompt.messages and self._store.is_head(prompt.messages[0]) else 0
        yield from prompt.messages[:heads]
        if prompt.tools:
            yield -prompt.tools
        yield from prompt.messages[heads:]

    def _opening(self, prompt: LogPrompt) -> tuple[list[bytes], _State]:
        """Hashes of all but the last unit, which is rarely met again, and the state after it."""
        units = list(self._units(prompt))
        at, pages = 0, []
        for unit in units[:-1]:
            at = self._after(at, unit)
            pages.append(self._kept[at].pages)
        return pages, self._next(self._kept[at], self._rendered(units[-1]))

    def _after(self, at: int, unit: int) -> int:
        known = self._states.get((at, unit))
        if known is None:
            known = self._states[at, unit] = len(self._kept)
            self._kept.append(self._next(self._kept[at], self._rendered(unit)))
        return known

    def _next(self, state: _State, data: bytes) -> _State:
        return state.followed_by(data, self._page_bytes)

    def _rendered(self, unit: int) -> bytes:
        if unit < 0:
            tools = "\n".join([tool.json for tool in self._store.tools(-unit)])
            return f"# Tools\n{tools}\n".encode(errors="surrogatepass")
        if self._store.is_plain(unit):
            role, content = self._store.roles[unit], self._store.text(unit)
        else:
            message = self._store.message(unit)
            role, content = message.role, _full_text(message)
        return f"<|im_start|>{role}\n{content}<|im_end|>\n".encode(errors="surrogatepass")


def _full_text(message: Message) -> str:
    """A message's text with its reasoning and tool calls, as most chat templates put them."""
    reasoning = f"<think>\n{message.reasoning}\n</think>\n" if message.reasoning else ""
    calls = [
        f'<tool_call>{{"name": "{call.name}", "arguments": {call.arguments}}}</tool_call>\n'
        for call in message.tool_calls
    ]
    return f"{reasoning}{message.content}{''.join(calls)}"


class TokenMeasure:
    """Counts the model's own tokens, through its chat template.

    A prompt that the chat template refuses is measured from its bytes; `refused` counts them.
    """

    exact = True

    def __init__(self, store: TextStore, tokenizer: PromptTokenizer, *, page_size: int) -> None:
        self.refused = 0
        self._store = store
        self._tokenizer = tokenizer
        self._bytes = ByteMeasure(store, page_size=page_size)
        self._openings = _Openings(page_size * ID_BYTES)
        # Mostly the chat template's own words.
        self._short = lru_cache(_TEXTS_KEPT)(tokenizer.runs.encode)
        self._message = lru_cache(_MESSAGES_KEPT)(store.message)
        # A prompt is met again in every replay that leaves it as it was.
        self._chains: dict[tuple[LogPrompt, int | None], PageChain] = {}
        self._room = _KEPT_BYTES

    def chain(self, prompt: LogPrompt) -> PageChain:
        """The prompt, up to where the answer begins."""
        return self._chain(prompt, None)

    def chain_with_answer(self, prompt: LogPrompt, answer: int) -> PageChain:
        """The prompt followed by its answer: its text as the model says it."""
        return self._chain(prompt, answer)

    def _chain(self, prompt: LogPrompt, answer: int | None) -> PageChain:
        chain = self._chains.get((prompt, answer))
        if chain is None:
            spans = self._spans(prompt, answer)
            chain = self._refused(prompt, answer) if spans is None else self._chained(spans)
            if self._room > 0:
                self._room -= len(chain.pages) + _KEPT_OVERHEAD
                self._chains[prompt, answer] = chain
        return chain

    def _refused(self, prompt: LogPrompt, answer: int | None) -> PageChain:
        if answer is not None:
            return self._bytes.chain_with_answer(prompt, answer)
        self.refused += 1
        return self._bytes.chain(prompt)

    def shared_tokens(self, one: LogPrompt, other: LogPrompt) -> int:
        """Token ids that two prompts share from the first on."""
        ids, others = self._ids(one), self._ids(other)
        if ids is None or others is None:
            return self._bytes.shared_tokens(one, other)
        return shared_length(ids, others) // ID_BYTES

    def shows_tools(self, prompt: LogPrompt) -> bool:
        """Whether the prompt's tools reach its tokens; yes for a prompt that is refused."""
        shown = self._ids(prompt)
        return shown is None or shown != self._ids(prompt._replace(tools=0))

    def _ids(self, prompt: LogPrompt) -> bytes | None:
        spans = self._spans(prompt)
        return None if spans is None else b"".join([self._packed(span) for span in spans])

    def _chained(self, spans: Sequence[Span]) -> PageChain:
        return self._openings.chain(spans, self._packed)

    def _packed(self, span: Span) -> bytes:
        if span.control is not None:
            return span.control.to_bytes(ID_BYTES, sys.byteorder)
        text = "".join(span.parts)
        return self._short(text) if len(text) <= _SHORT else self._tokenizer.runs.encode(text)

    def _spans(self, prompt: LogPrompt, answer: int | None = None) -> list[Span] | None:
        """What is encoded in one go, by turns with control tokens; None: refused."""
        messages = [self._message(number) for number in prompt.messages]
        try:
            pieces = self._tokenizer.chat.pieces(messages, self._store.tools(prompt.tools))
        except ChatTemplateError:
            return None
        if answer is not None:
            said = self._message(answer)
            pieces = [*pieces, Piece(_full_text(said), Origin(len(messages), "content"))]
            messages.append(said)
        return self._tokenizer.control.spans(pieces, messages)


class _Openings:
    """Page hashes of the openings that prompts have in common; the least used are dropped."""

    def __init__(self, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._known: OrderedDict[tuple[int, tuple[Span, ...]], tuple[int, _State]] = OrderedDict()
        self._numbers = count(1)
        self._held = 0

    def chain(self, spans: Sequence[Span], packed: Callable[[Span], bytes]) -> PageChain:
        """The spans' tokens and pages."""
        number, state, pages = 0, _START, list[bytes]()
        first = begin = 0
        for stop, (_, starts, _) in enumerate(spans):
            if starts[0] - begin < _LEAST_OPENING:
                continue
            number, state = self._after(number, state, tuple(spans[first:stop]), packed)
            pages.append(state.pages)
            first, begin = stop, starts[0]
        rest = b"".join([packed(span) for span in spans[first:]])
        last = state.followed_by(rest, self._page_bytes)
        return PageChain(last.num_bytes // ID_BYTES, b"".join([*pages, last.pages]))

    def _after(
        self, number: int, state: _State, spans: tuple[Span, ...], packed: Callable[[Span], bytes]
    ) -> tuple[int, _State]:
        known = self._known.get((number, spans))
        if known is not None:
            self._known.move_to_end((number, spans))
            return known
        data = b"".join([packed(span) for span in spans])
        made = next(self._numbers), state.followed_by(data, self._page_bytes)
        self._known[number, spans] = made
        self._held += _opening_bytes(spans, made[1])
        while self._held > _OPENINGS_BYTES:
            (_, dropped), (_, its) = self._known.popitem(last=False)
            self._held -= _opening_bytes(dropped, its)
        return made


def _opening_bytes(spans: tuple[Span, ...], state: _State) -> int:
    text = sum(len(part) for span in spans for part in span.parts)
    return text + len(state.pages) + len(state.rest) + _KEPT_OVERHEAD * (1 + len(spans))
