"""The pages of results, made from their records alone. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.rag_cag.score import ArmScore, Record, arm_scores

WITHIN = 0.25


def ttft_table(records: Sequence[Record]) -> str:
    """A line for each arm."""
    measured = [record for record in records if record["round"] >= 0]
    lines = [
        "| | prompt | re-used | from tiers | computed | TTFT, median (lowest–highest) | predicted |"
        " off by |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
        *map(_ttft_line, arm_scores(measured)),
    ]
    return "\n".join(lines)


def _ttft_line(score: ArmScore) -> str:
    good = abs(score.error) <= WITHIN
    error = f"{score.error:+.0%}"
    return (
        f"| {score.arm} | {score.prompt_tokens:,.0f} "
        f"| {score.prompt_tokens - score.computed_tokens:,.0f} | {score.loaded_tokens:,.0f} "
        f"| {score.computed_tokens:,.0f} "
        f"| {score.ttft_s:.3f} s ({score.lowest_s:.3f}–{score.highest_s:.3f}) "
        f"| {score.predicted_s:.3f} s | {error if good else f'**{error}**'} |"
    )
