"""Where a model's answer lies in the next prompt, and whether the chat template keeps all of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from prompts.chat_shapes import Piece
from prompts.chat_template import pieces_from, text_of
from prompts.segments import Message
from prompts.tokens import PromptTokenizer

_REASONING_LEFT_OUT = "it leaves the reasoning of earlier answers out"
_PART_LEFT_OUT = "it leaves a part of the answer out"
_OTHER_WORDS = "it writes the answer in other words than the model did"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPlace:
    """Text from character `end` on follows the answer; `unfaithful` says what it lost, if any."""

    end: int
    unfaithful: str | None = None


def locate_answer(
    tokenizer: PromptTokenizer,
    pieces: Sequence[Piece],
    messages: Sequence[Message],
    answer: int,
    start: int,
    output: Sequence[int],
) -> AnswerPlace:
    """The place of the answer `messages[answer]`, which begins at character `start`.

    Its end is a control token of the template, the model's stop token; where the output has one, it
    belongs to the answer.
    """
    lost = lost_part(pieces, messages[answer], answer)
    if lost is not None:
        return AnswerPlace(end=start, unfaithful=lost)
    text = text_of(pieces)
    last = _end_of(pieces, answer, start)
    close, stop = _closing(tokenizer, pieces, last)
    stopped = bool(output) and output[-1] in tokenizer.control
    stopped = stopped and not tokenizer.control.is_soft(tokenizer.spelling(output[-1]) or "")
    said = tokenizer.decode(output[:-1] if stopped else output)
    calls = _start_of_calls(pieces, answer)
    written = text[start : close if calls is None else calls]
    if not _same_words(said, written, whole=calls is None):
        cause = _REASONING_LEFT_OUT if len(said) > len(written) else _OTHER_WORDS
        return AnswerPlace(end=start, unfaithful=cause)
    return AnswerPlace(end=stop if stopped else close)


def lost_part(pieces: Sequence[Piece], message: Message, index: int) -> str | None:
    """What of a message's fields the template does not write; white space doesn't count."""
    if message.reasoning and not _covered(pieces, index, "reasoning", message.reasoning):
        return _REASONING_LEFT_OUT
    if not _covered(pieces, index, "content", message.content):
        return _REASONING_LEFT_OUT if "</think>" in message.content else _PART_LEFT_OUT
    if message.tool_calls and _start_of_calls(pieces, index) is None:
        return _PART_LEFT_OUT
    return None


def _covered(pieces: Sequence[Piece], index: int, field: str, text: str) -> bool:
    written = "".join(piece.text for piece in pieces if piece.origin == (index, field))
    return "".join(written.split()) == "".join(text.split())


def _end_of(pieces: Sequence[Piece], index: int, start: int) -> int:
    """The character after the last piece of a message."""
    end, position = start, 0
    for piece in pieces:
        position += len(piece.text)
        if piece.origin is not None and piece.origin.message == index:
            end = max(end, position)
    return end


def _start_of_calls(pieces: Sequence[Piece], index: int) -> int | None:
    position = 0
    for piece in pieces:
        if piece.origin == (index, "tool_calls"):
            return position
        position += len(piece.text)
    return None


def _closing(tokenizer: PromptTokenizer, pieces: Sequence[Piece], last: int) -> tuple[int, int]:
    """Where the control token that closes the answer starts and stops."""
    own: list[Piece] = []
    for piece in pieces_from(pieces, last):
        if piece.origin is not None:
            break
        own.append(piece)
    spans = [span for span in tokenizer.control.spans(own, ()) if span.control is not None]
    hard = [span for span in spans if not tokenizer.control.is_soft(span.parts[0])]
    eos = tokenizer.chat.special_tokens.get("eos_token")
    closing = next((s for s in hard if s.parts[0] == eos), None) or next(iter(hard), None)
    if closing is None:
        return last, last
    start = last + closing.starts[0]
    return start, start + len(closing.parts[0])


def _same_words(said: str, written: str, *, whole: bool) -> bool:
    """Whether the model's text is the template's but for white space; or begins so."""
    said, written = "".join(said.split()), "".join(written.split())
    return said == written if whole else said.startswith(written)
