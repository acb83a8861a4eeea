"""What a fault costs: tokens after page rounding (SGLang) and chunk rounding (LMCache)."""

from prompts.lint.findings import PrefixBreak
from prompts.lint.options import LintOptions


def prefix_break(
    token: int | None, of: int | None, options: LintOptions, *, segment: str | None = None
) -> PrefixBreak:
    """The cost of a prefix of `token` tokens where `of` could be shared.

    Both None when they aren't known.
    """
    if token is None or of is None:
        return PrefixBreak(segment=segment, token=token, of=of)
    return PrefixBreak(
        segment=segment,
        token=token,
        of=of,
        page_tokens=_lost(token, of, options.page_size),
        chunk_tokens=_lost(token, of, options.chunk_size),
    )


def cost_sentence(cost: PrefixBreak) -> str:
    """The cost for people, as the end of a message; empty where nothing is known."""
    if cost.token is None or cost.of is None:
        return ""
    about = "≈" if cost.estimated else ""
    head = f"It breaks the shared prefix at token {about}{cost.token:,} of {about}{cost.of:,}"
    if cost.page_tokens is None:
        return f"{head}."
    if not cost.page_tokens:
        return f"{head}; after page rounding no token is recomputed for it yet."
    tiers = f", {about}{cost.chunk_tokens:,} in the tiers" if cost.chunk_tokens else ""
    return (
        f"{head}; {about}{cost.page_tokens:,} tokens are recomputed on the GPU{tiers} "
        "whenever it changes."
    )


def _lost(token: int, of: int, unit: int) -> int:
    """Full units of `of` tokens that lie behind the last full unit of `token` tokens."""
    return (of // unit - token // unit) * unit
