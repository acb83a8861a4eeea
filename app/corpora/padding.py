"""The pad behind a corpus' last document: the prefix then ends where a page or chunk ends. Pure.

Without it, the last tokens of a corpus share their page with a question, and are computed for each
question anew: up to a whole chunk of a tier, 256 tokens by LMCache's default. It stands behind the
last document alone, so that a document that is added later begins where the pad began.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prompts import Message, PromptTokenizer, Template, render
from prompts.render import Value
from prompts.shared_length import shared_length

PAD = "pad"
"""The variable of a template that stands behind its documents."""

# Begins as a document does, so that the tokens before it come out as they do before a document.
_OPENING, _FILLER, _CLOSING = "\n\n<!--", " .", " -->"
_MOST_TRIES = 24
# What may follow a corpus: two that have nothing in common, without instructions and with.
_FOLLOWERS = (("", "Why?"), ("Answer in French.", "1, or 2?"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """A pad, and what it makes of the prefix.

    Attributes:
        text: empty where none is needed, or none can be made.
        tokens: of the prefix that all prompts share, in whole pages or chunks.
        bare_tokens: that all prompts share without the pad.
    """

    text: str
    tokens: int
    bare_tokens: int


def pad_text(dots: int) -> str:
    """The pad of a length; a dot is one token to nearly every tokenizer."""
    return f"{_OPENING}{_FILLER * dots}{_CLOSING}"


def corpus_padding(
    tokenizer: PromptTokenizer,
    template: Template,
    values: Mapping[str, Value],
    *,
    multiple: int,
) -> Padding:
    """The shortest pad with which the shared prefix of a template's prompts fills whole pages.

    Args:
        values: those that all these prompts share, the documents among them.
        multiple: tokens of a page or chunk, >= 1.

    Raises:
        PromptError: a value is at fault, or the chat template refuses such a prompt.
    """

    def shared(pad: str) -> int:
        return shared_tokens(tokenizer, template, {**values, PAD: pad} if pad else values)

    bare = shared("")
    if bare % multiple == 0 or PAD not in template.variables:
        return Padding(text="", tokens=bare - bare % multiple, bare_tokens=bare)
    found = shortest_pad(multiple, lambda dots: shared(pad_text(dots)))
    if found is None:
        return Padding(text="", tokens=bare - bare % multiple, bare_tokens=bare)
    dots, tokens = found
    return Padding(text=pad_text(dots), tokens=tokens, bare_tokens=bare)


def shortest_pad(multiple: int, tokens_with: Callable[[int], int]) -> tuple[int, int] | None:
    """How many dots reach the next multiple, and that multiple; None where dots add no tokens.

    A tokenizer decides how many tokens so many dots are, so it is tried. Where none comes out even,
    a few tokens over the boundary serve as well.
    """
    tokens = tokens_with(0)
    goal = -(-tokens // multiple) * multiple
    if tokens == goal:
        return 0, goal
    below, enough = 0, None
    for _ in range(_MOST_TRIES):
        dots = below + goal - tokens if enough is None else (below + enough) // 2
        reached = tokens_with(dots)
        if reached == goal:
            return dots, goal
        if reached > goal:
            enough = dots
        elif reached == tokens and enough is None:
            return None
        else:
            below, tokens = dots, reached
        if enough is not None and enough - below <= 1:
            break
    return None if enough is None else (enough, goal)


def shared_tokens(
    tokenizer: PromptTokenizer, template: Template, values: Mapping[str, Value]
) -> int:
    """Leading tokens that prompts with these values share, whatever instructions and questions.

    Raises:
        PromptError: a value is at fault, or the chat template refuses such a prompt.
    """
    one, other = (
        tokenizer.tokenize(render(template, {**values, **_follower(template, *follower)})).token_ids
        for follower in _FOLLOWERS
    )
    return shared_length(one, other)


def _follower(template: Template, instructions: str, question: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    if instructions and "instructions" in template.variables:
        values["instructions"] = instructions
    if "question" in template.variables:
        values["question"] = question
    if "conversation" in template.variables:
        values["conversation"] = (Message(role="user", content=question),)
    return values
