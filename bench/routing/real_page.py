"""The page about real engines, made from its JSON alone. Pure."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from bench.routing.tables import environment_line, table

_HEAD = ("router", "hits", "computed tokens", "imbalance", "TTFT mean s", "p50", "p95")


def real_page(result: Mapping[str, Any]) -> str:
    """Medians of the rounds, and every round."""
    options, outcomes = result["options"], result["measured"]
    names = list(dict.fromkeys(o["router"] for o in outcomes))
    by_name = {name: [o for o in outcomes if o["router"] == name] for name in names}
    lines = [
        "# Routers before real engines",
        "",
        f"{options['replicas']} SGLang replicas on the CPU (`foreword up --replicas "
        f"{options['replicas']} --no-tiers --pool-tokens {options['pool_tokens']}`, model "
        f"{options['model']}), the same for every router; caches are emptied before each round. "
        f"{options['agents']} agents take {options['turns']} steps each, and "
        f"{options['readers']} readers ask {options['questions']} questions about each of "
        f"{options['documents']} documents; each sends when it was answered. Hits are as the "
        "engines counted them, TTFT is as the client saw it. All of it shares one machine: times "
        "depend on its other work, hits and computed tokens hardly do.",
        "",
        f"## Medians of {max(map(len, by_name.values()), default=0)} rounds",
        "",
        *table(
            [*_HEAD, "whole round s", "failed"],
            (
                [
                    name,
                    f"{_median(rows, 'hit_rate'):.1%}",
                    f"{_median(rows, 'computed_tokens'):,.0f}",
                    f"{_median(rows, 'imbalance'):.2f}",
                    f"{_median(rows, 'ttft_mean_s'):.2f}",
                    f"{_median(rows, 'ttft_p50_s'):.2f}",
                    f"{_median(rows, 'ttft_p95_s'):.2f}",
                    f"{_median(rows, 'total_s'):.0f}",
                    f"{sum(o['failed'] for o in rows)} of {sum(o['requests'] for o in rows)}",
                ]
                for name, rows in by_name.items()
            ),
        ),
        "",
        "## Every round",
        "",
        *table(
            ["round", *_HEAD],
            (
                [
                    str(o["round"]),
                    o["router"],
                    f"{o['hit_rate']:.1%}",
                    f"{o['computed_tokens']:,}",
                    f"{o['imbalance']:.2f}",
                    f"{o['ttft_mean_s']:.2f}",
                    f"{o['ttft_p50_s']:.2f}",
                    f"{o['ttft_p95_s']:.2f}",
                ]
                for o in outcomes
            ),
        ),
        "",
    ]
    return "\n".join([*lines, *environment_line(result)])


def _median(rows: list[Mapping[str, Any]], name: str) -> float:
    return float(median(row[name] for row in rows))
