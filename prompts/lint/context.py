"""What a rule may ask beside the prompt source: options, token counts, texts already scanned."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prompts.errors import ChatTemplateError
from prompts.lint.cost import prefix_break
from prompts.lint.findings import PrefixBreak
from prompts.lint.options import LintOptions, TokenCounter
from prompts.lint.prompt_source import Literal, PromptSource
from prompts.lint.source_file import SourceFile
from prompts.lint.text_scan import TextScanner
from prompts.segments import Prompt, RenderedSegment, Volatility


@dataclass(frozen=True, slots=True, kw_only=True)
class LintContext:
    """One for a run. `included` finds the file that a file includes under a name."""

    options: LintOptions
    scanner: TextScanner
    included: Callable[[Path, str], SourceFile | None]

    def cost(self, prompt: PromptSource, index: int) -> PrefixBreak:
        """What it costs that the shared prefix ends at a piece.

        Unknown where the text before it depends on values, or without a tokenizer.
        """
        part, _ = prompt.pieces[index]
        tokenizer = self.options.tokenizer
        before = prompt.literal_before(index) if tokenizer else None
        if before is None or tokenizer is None:
            return PrefixBreak(segment=part.segment)
        behind = prompt.literal_behind(index)
        token, of = _tokens(tokenizer, before, behind, chat=prompt.template is not None)
        return prefix_break(token, max(token, of), self.options, segment=part.segment)


def _tokens(
    tokenizer: TokenCounter, before: list[Literal], behind: list[Literal], *, chat: bool
) -> tuple[int, int]:
    """Tokens up to the break, and of all text that could be shared.

    In a `chat`, with the chat template's own words.
    """
    if chat:
        # Some chat templates send no system text without a user's turn behind it.
        segments = _segments([*before, *behind, Literal("user", "?")])
        try:
            ranges = tokenizer.tokenize(Prompt(template="", segments=segments)).ranges
        except ChatTemplateError:
            ranges = ()
        shared = len(before) + len(behind)
        if ranges and shared and ranges[shared - 1].stop:
            return (ranges[len(before) - 1].stop if before else 0), ranges[shared - 1].stop
    text = "".join(literal.text for literal in before)
    whole = text + "".join(literal.text for literal in behind)
    return tokenizer.count(text), tokenizer.count(whole)


def _segments(literals: list[Literal]) -> tuple[RenderedSegment, ...]:
    """Segments of a prompt that holds nothing but literal text; a change of role ends a message."""
    segments: list[RenderedSegment] = []
    message, role = -1, None
    for literal in literals:
        message += literal.role != role
        role = literal.role
        segments.append(
            RenderedSegment(
                id="", role=role, volatility=Volatility.STATIC, text=literal.text, message=message
            )
        )
    return tuple(segments)
