"""Conversations that only grow, down to the token: each prompt begins with what the engine holds.

The model's own output ids are kept as they were, and only what comes after them is encoded. Where a
chat template writes earlier turns differently once more follow (it drops reasoning, say), the model
expects to read them so: the transcript follows the template, keeps every token before that place,
and names the break as inherent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from prompts.chat_shapes import Piece
from prompts.chat_template import pieces_from, text_of
from prompts.errors import TranscriptRewriteError
from prompts.segments import Message, Tool
from prompts.shared_length import shared_length
from prompts.tokens import EncodedPieces, PromptTokenizer
from prompts.transcript_answer import AnswerPlace, locate_answer, lost_part


@dataclass(frozen=True, slots=True, kw_only=True)
class InherentBreak:
    """Re-use ends at `token` of the `of` tokens that the engine holds, because of the template.

    `turn` is the index of the message that the template writes differently now.
    """

    token: int
    of: int
    turn: int
    cause: str

    def __str__(self) -> str:
        return (
            f"inherent: the chat template rewrites message {self.turn}, so re-use ends at token "
            f"{self.token:,} of {self.of:,}: {self.cause}"
        )


@dataclass(frozen=True, slots=True, order=True)
class _Mark:
    """A place where text and ids can be cut: the start of a control token of the template."""

    character: int
    index: int


@dataclass(frozen=True, slots=True)
class _Turn:
    """The state after so many messages, and whether the last of them is the model's answer."""

    messages: int
    characters: int
    said: int
    tokens: int
    answered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A conversation and the token ids of its next prompt, or of all that was said so far.

    Immutable: `answer`, `append`, `follow` and `fork` make a new one.

    Attributes:
        messages: all messages, the answers too.
        tools: the tools that the model may call.
        token_ids: the prompt to send; after `answer`, that prompt and the output ids.
        answered: whether the last message is the model's.
        inherent: where the last `append` could not keep what the engine holds, and why.
    """

    tokenizer: PromptTokenizer = field(repr=False, compare=False)
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    token_ids: tuple[int, ...]
    answered: bool = False
    inherent: InherentBreak | None = None
    # The last prompt, and how far the messages go in it: then comes what opens an answer.
    _text: str = field(repr=False)
    _said: int = field(repr=False)
    _marks: tuple[_Mark, ...] = field(repr=False)
    _turns: tuple[_Turn, ...] = field(repr=False)
    _output: tuple[int, ...] = field(default=(), repr=False)

    @classmethod
    def start(
        cls,
        tokenizer: PromptTokenizer,
        messages: Sequence[Message],
        tools: tuple[Tool, ...] = (),
        *,
        cuts: Iterable[int] = (),
    ) -> "Transcript":
        """A transcript of messages that the engine hasn't seen: its first prompt.

        With the `cuts` of the prompt's layout, what was encoded for that isn't encoded again.

        Raises:
            ChatTemplateError: the chat template refuses the messages.
        """
        pieces = tokenizer.chat.pieces(messages, tools)
        encoded = tokenizer.encode_pieces(pieces, messages, cuts)
        text = text_of(pieces)
        return cls(
            tokenizer=tokenizer,
            messages=tuple(messages),
            tools=tools,
            token_ids=tuple(encoded.token_ids),
            _text=text,
            _said=_said(pieces),
            _marks=_marks(encoded, 0, 0),
            _turns=(_Turn(len(messages), len(text), _said(pieces), len(encoded.token_ids), False),),
        )

    @property
    def answers(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Answers whose own ids are in the last prompt: the number of each message, and the ids."""
        return tuple(
            (turn.messages - 1, self.token_ids[before.tokens : turn.tokens])
            for before, turn in pairwise(self._turns)
            if turn.answered
        )

    def answer(self, output_ids: Sequence[int], message: Message | None = None) -> "Transcript":
        """With the model's answer: the ids as they came, and the message a client got for them.

        Without a message, the answer is the text of the ids.

        Raises:
            ValueError: the last message is an answer already.
        """
        if self.answered:
            raise ValueError("the last message is an answer already; append another one first")
        output = tuple(output_ids)
        message = message or Message(role="assistant", content=self._spoken(output))
        messages = (*self.messages, message)
        token_ids = self.token_ids + output
        turn = _Turn(len(messages), len(self._text), self._said, len(token_ids), True)
        return replace(
            self,
            messages=messages,
            token_ids=token_ids,
            answered=True,
            _output=output,
            _turns=(*self._turns, turn),
        )

    def append(self, *added: Message) -> "Transcript":
        """With further messages: the next prompt.

        Where no answer came between, what opens one moves behind the new messages.

        Raises:
            ChatTemplateError: the chat template refuses the messages.
        """
        messages = (*self.messages, *added)
        pieces = self.tokenizer.chat.pieces(messages, self.tools)
        if not self.answered or not text_of(pieces).startswith(self._text):
            return self._again(messages, pieces)
        place = locate_answer(
            self.tokenizer, pieces, messages, len(self.messages) - 1, len(self._text), self._output
        )
        if place.unfaithful is not None:
            return self._again(messages, pieces, place.unfaithful)
        return self._onward(messages, pieces, place)

    def follow(self, messages: Sequence[Message]) -> "Transcript":
        """With what a client's whole conversation has beyond this one.

        An answer may come back without its reasoning: clients often drop it.

        Raises:
            TranscriptRewriteError: a past message differs or is missing.
            ChatTemplateError: the chat template refuses the messages.
        """
        for turn, (ours, theirs) in enumerate(zip(self.messages, messages, strict=False)):
            if theirs not in (ours, replace(ours, reasoning=None)):
                raise TranscriptRewriteError(turn, shared_length(ours.content, theirs.content))
        if len(messages) < len(self.messages):
            raise TranscriptRewriteError(len(messages), 0)
        return self.append(*messages[len(self.messages) :])

    def fork(self, turn: int) -> "Transcript":
        """A branch that has only the messages before index `turn`.

        What the engine holds of them is kept.
        """
        if not 0 < turn <= len(self.messages):
            raise IndexError(f"a branch keeps 1 to {len(self.messages)} messages, not {turn}")
        kept = [known for known in self._turns if known.messages <= turn]
        if not kept:
            return Transcript.start(self.tokenizer, self.messages[:turn], self.tools)
        last = kept[-1]
        branch = replace(
            self,
            messages=self.messages[: last.messages],
            token_ids=self.token_ids[: last.tokens],
            answered=last.answered,
            inherent=None,
            _text=self._text[: last.characters],
            _said=last.said,
            _marks=tuple(m for m in self._marks if m.character < last.characters),
            _turns=tuple(kept),
            _output=self.token_ids[kept[-2].tokens : last.tokens] if last.answered else (),
        )
        rest = self.messages[last.messages : turn]
        return branch.append(*rest) if rest else branch

    def _spoken(self, output: tuple[int, ...]) -> str:
        end = len(output)
        while end and output[end - 1] in self.tokenizer.control:
            end -= 1
        return self.tokenizer.decode(output[:end])

    def _onward(
        self, messages: tuple[Message, ...], pieces: list[Piece], place: AnswerPlace
    ) -> "Transcript":
        """All that the engine holds, and what follows the answer."""
        encoded = self.tokenizer.encode_pieces(pieces_from(pieces, place.end), messages)
        fresh = _marks(encoded, place.end, len(self.token_ids))
        return self._prompt(
            messages,
            pieces,
            (*self.token_ids, *encoded.token_ids),
            marks=(*self._marks, *fresh),
            turns=self._turns,
        )

    def _again(
        self, messages: tuple[Message, ...], pieces: list[Piece], cause: str | None = None
    ) -> "Transcript":
        """As the chat template writes it now; everything before the first change is kept."""
        shared = shared_length(self._text, text_of(pieces))
        mark = max((m for m in self._marks if m.character <= shared), default=_Mark(0, 0))
        encoded = self.tokenizer.encode_pieces(pieces_from(pieces, mark.character), messages)
        token_ids = (*self.token_ids[: mark.index], *encoded.token_ids)
        same = shared_length(self.token_ids, token_ids)
        inherent = None
        # Without an answer, it is the caller who takes away what opens one.
        if same < len(self.token_ids) and (self.answered or shared < self._said):
            turn = _turn_at(pieces, shared, default=len(self.messages) - 1)
            cause = cause or lost_part(pieces, messages[turn], turn) or self._cause(shared)
            inherent = InherentBreak(token=same, of=len(self.token_ids), turn=turn, cause=cause)
        marks = tuple(m for m in self._marks if m.character < mark.character)
        return self._prompt(
            messages,
            pieces,
            token_ids,
            marks=(*marks, *_marks(encoded, mark.character, mark.index)),
            turns=tuple(t for t in self._turns if t.tokens <= same and t.characters <= shared),
            inherent=inherent,
        )

    def _prompt(
        self,
        messages: tuple[Message, ...],
        pieces: list[Piece],
        token_ids: tuple[int, ...],
        *,
        marks: tuple[_Mark, ...],
        turns: tuple[_Turn, ...],
        inherent: InherentBreak | None = None,
    ) -> "Transcript":
        """The next prompt of this conversation."""
        text, said = text_of(pieces), _said(pieces)
        return replace(
            self,
            messages=messages,
            token_ids=token_ids,
            answered=False,
            inherent=inherent,
            _text=text,
            _said=said,
            _marks=marks,
            _turns=(*turns, _Turn(len(messages), len(text), said, len(token_ids), False)),
            _output=(),
        )

    def _cause(self, shared: int) -> str:
        if shared >= self._said:
            return "what it opens an answer with is not kept in later prompts"
        return "it writes earlier messages differently once others follow"


def _marks(encoded: EncodedPieces, character: int, index: int) -> tuple[_Mark, ...]:
    return tuple(_Mark(character + c.character, index + c.token) for c in encoded.controls)


def _said(pieces: Sequence[Piece]) -> int:
    """The character after the last one that isn't the template's own."""
    end = position = 0
    for piece in pieces:
        position += len(piece.text)
        if piece.origin is not None:
            end = position
    return end


def _turn_at(pieces: Sequence[Piece], character: int, *, default: int) -> int:
    """The message to which the text at a character, or the first one after it, belongs."""
    position = 0
    for piece in pieces:
        position += len(piece.text)
        if position > character and piece.origin and piece.origin.message is not None:
            return piece.origin.message
    return default
