"""Prompts to lengths and chained page hashes: with a tokenizer exactly, without one from bytes.

Without a tokenizer, four bytes of the prompt count as one token. As re-use is decided from the
first token on, that shifts where pages end but not which prompts share an opening.
"""

from array import array
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple, Protocol

from cache.request_log.prefixes import shared_length
from cache.request_log.table import LogPrompt, TextStore
from prompts import Message, Prompt, PromptTokenizer, RenderedSegment, Volatility
from prompts.errors import ChatTemplateError

PAGE_HASH_BYTES = 8
BYTES_PER_TOKEN = 4
_ANSWER = b"<|im_start|>assistant\n"
_KEPT_BYTES = 96 << 20
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


class ByteMeasure:
    """Estimates tokens from the bytes of a plain rendering, tools behind the system message.

    Openings that were met before are not rendered again.
    """

    exact = False

    def __init__(self, store: TextStore, *, page_size: int) -> None:
        self._store = store
        self._page_bytes = page_size * BYTES_PER_TOKEN
        self._states: dict[tuple[int, int], int] = {}
        self._kept: list[_State] = [_State(0, b"", _EMPTY, b"")]

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
        buffered = state.rest + data
        pages = hash_pages(state.last, buffered, self._page_bytes)
        rest = buffered[len(buffered) // self._page_bytes * self._page_bytes :]
        return _State(
            state.num_bytes + len(data), pages, pages[-PAGE_HASH_BYTES:] or state.last, rest
        )

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
        self._page_bytes = page_size * array("I").itemsize
        self._bytes = ByteMeasure(store, page_size=page_size)
        # A prompt is met again in every replay that leaves it as it was.
        self._chains: dict[LogPrompt, PageChain] = {}
        self._room = _KEPT_BYTES

    def chain(self, prompt: LogPrompt) -> PageChain:
        """The prompt, up to where the answer begins."""
        known = self._chains.get(prompt)
        if known is not None:
            return known
        ids = self._ids(prompt)
        if ids is None:
            self.refused += 1
        chain = self._bytes.chain(prompt) if ids is None else self._hashed(ids)
        if self._room > 0:
            self._room -= len(chain.pages) + _KEPT_OVERHEAD
            self._chains[prompt] = chain
        return chain

    def chain_with_answer(self, prompt: LogPrompt, answer: int) -> PageChain:
        """The prompt followed by its answer."""
        ids = self._ids(LogPrompt(prompt.tools, (*prompt.messages, answer)))
        return self._bytes.chain_with_answer(prompt, answer) if ids is None else self._hashed(ids)

    def shared_tokens(self, one: LogPrompt, other: LogPrompt) -> int:
        """Token ids that two prompts share from the first on."""
        ids, others = self._ids(one), self._ids(other)
        if ids is None or others is None:
            return self._bytes.shared_tokens(one, other)
        return shared_length(ids, others)

    def _hashed(self, ids: "array[int]") -> PageChain:
        return PageChain(len(ids), hash_pages(_EMPTY, ids.tobytes(), self._page_bytes))

    def _ids(self, prompt: LogPrompt) -> "array[int] | None":
        messages = tuple(self._store.message(number) for number in prompt.messages)
        segment = RenderedSegment(
            id="log", role="", volatility=Volatility.TURN, text="", message=0, expanded=messages
        )
        tools = self._store.tools(prompt.tools)
        try:
            tokenized = self._tokenizer.tokenize(
                Prompt(template="log", segments=(segment,), tools=tools)
            )
        except ChatTemplateError:
            return None
        return array("I", tokenized.token_ids)
