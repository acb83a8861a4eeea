"""The pages of results, made from their JSON alone. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.rag_cag.score import ArmScore, AutoScore, arm_scores, auto_score, tenant_scores

Result = Mapping[str, Any]


def ttft_page(result: Result) -> str:
    """The table of arms with where it was measured."""
    lines = [
        "| | prompt | re-used | from tiers | computed | TTFT, median (lowest to highest) "
        "| predicted | off by |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
        *map(_ttft_line, arm_scores(result["measured"])),
        "",
        f"Tokens and seconds are medians of {result['options']['rounds']} rounds, which take turns "
        "in who comes first. Predictions are of before each request was sent.",
    ]
    return _page("Time to the first token by mode, and as predicted", lines, result)


def _ttft_line(score: ArmScore) -> str:
    error = f"{score.error:+.0%}"
    return (
        f"| {score.arm} | {score.prompt_tokens:,.0f} "
        f"| {score.prompt_tokens - score.computed_tokens:,.0f} | {score.loaded_tokens:,.0f} "
        f"| {score.computed_tokens:,.0f} "
        f"| {score.ttft_s:.3f} s ({score.lowest_s:.3f} to {score.highest_s:.3f}) "
        f"| {score.predicted_s:.3f} s | {_marked(error, score.good)} |"
    )


def tenants_page(result: Result) -> str:
    """A line for each tenant: its first visit, and the later ones."""
    lines = [
        "| tenant | corpus | of the pool | from tiers, least | RAM | SSD | TTFT from tiers "
        "| TTFT computed | times as fast |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += (
        f"| {each.tenant + 1} | {each.corpus_tokens:,} "
        f"| {each.corpus_tokens / each.pool_tokens:.0%} "
        f"| {_marked(f'{each.least_share:.1%}', each.good)} "
        f"| {each.ram_tokens:,.0f} | {each.ssd_tokens:,.0f} "
        f"| {each.loaded_s:.3f} s | {each.computed_s:.3f} s "
        f"| {each.computed_s / each.loaded_s:.1f} |"
        for each in tenant_scores(result["measured"])
    )
    lines += [
        "",
        f"Each of {result['options']['visits']} rounds visits all of them in the same order; TTFT "
        "from the tiers is their median, the computed one that of the first visit. Tenants are "
        "collections here: to the engine and the tiers both are salts.",
    ]
    return _page("Tenants in rotation, each with a corpus as large as the pool", lines, result)


def auto_page(result: Result) -> str:
    """The sums of each way, and where each collection went."""
    ways, sites = result["measured"]["ways"], result["measured"]["sites"]
    score = auto_score(result["measured"])
    lines = [
        f"| | {' | '.join(sites)} | warmings | total |",
        f"|---|{'--:|' * len(sites)}--:|--:|",
        *(_way_line(name, score, sites) for name in ways),
        "",
        "Prefill seconds. `rag` and `cag`: every collection in that mode (those that can't be "
        "shown whole by retrieval); `best`, the best fixed modes by these two: "
        f"{_modes(score.best.modes)}.",
        "",
        f"`auto` costs {_marked(f'{score.regret:.3f}', score.good)} times the best.",
        "",
        *_answered(ways["auto"], sites),
    ]
    return _page("`auto` against fixed modes over a mixed workload", lines, result)


def _way_line(name: str, score: AutoScore, sites: Sequence[str]) -> str:
    cells = " | ".join(f"{score.spent_s[name].get(site, 0.0):.1f}" for site in sites)
    return f"| {name} | {cells} | {score.warmed_s[name]:.1f} | {score.totals_s[name]:.1f} |"


def _answered(way: Mapping[str, Any], sites: Sequence[str]) -> Iterator[str]:
    yield "Questions that `auto` answered in each mode, in the first and in the second half:"
    yield ""
    yield "| | first half | second half |"
    yield "|---|---|---|"
    for site in sites:
        modes = [record["mode"] for record in way["records"] if record["collection"] == site]
        half = len(modes) // 2
        yield f"| {site} | {_counted(modes[:half])} | {_counted(modes[half:])} |"


def _counted(modes: Sequence[str]) -> str:
    return ", ".join(f"{count:,} {mode}" for mode, count in sorted(Counter(modes).items()))


def _modes(modes: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {mode}" for name, mode in modes.items())


def _marked(text: str, good: bool) -> str:
    """What isn't as promised is bold."""
    return text if good else f"**{text}**"


def _page(title: str, lines: Sequence[str], result: Result) -> str:
    on = result["environment"]
    return "\n".join(
        [
            f"# {title}",
            "",
            f"Engine: {result['engine']}.",
            "",
            *lines,
            "",
            f"`{result['command']}`; {on['processor']}, {on['cores']} cores, load average "
            f"{on['load_average']} at the end, Python {on['python']}, commit {on['commit']}.",
            "",
        ]
    )
