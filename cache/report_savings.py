"""What re-use saved, as a section. Pure."""

from cache.report_numbers import UNKNOWN, count, duration, long_duration
from cache.report_parts import Align, Column, Inline, Section, Sentence, Table
from cache.savings import Savings


def savings_section(savings: Savings | None) -> Section:
    """GPU time, time to first token and (with a price) money; or why they can't be told."""
    if savings is None:
        return Section(id="savings", title=_TITLE, short="Savings", lead=[_NOT_MEASURED])
    return Section(
        id="savings",
        title=_TITLE,
        short="Savings",
        lead=[_lead(savings)],
        tables=[_table(savings)],
        notes=[_source(savings), _LIMITS],
    )


def money(amount: float | None) -> str:
    """An amount in the operator's own currency."""
    if amount is None:
        return UNKNOWN
    return f"{amount:,.2f}" if amount >= 1 or amount == 0 else f"{amount:.4f}"


def _lead(savings: Savings) -> Sentence:
    words = f"About {long_duration(savings.saved_gpu_s)} of GPU time were not spent on computing "
    words += "prompts again"
    if savings.lost_gpu_s is not None:
        words += f"; {long_duration(savings.lost_gpu_s)} went into what could have been re-used"
    return (f"{words}.",)


def _table(savings: Savings) -> Table:
    lost_tokens = UNKNOWN if savings.lost_tokens is None else count(savings.lost_tokens)
    lost_gpu_s = UNKNOWN if savings.lost_gpu_s is None else long_duration(savings.lost_gpu_s)
    rows: list[tuple[Inline, ...]] = [
        ("prompt tokens", count(savings.saved_tokens), lost_tokens),
        ("GPU time", long_duration(savings.saved_gpu_s), lost_gpu_s),
        ("TTFT, mean per request", duration(savings.ttft_per_request_s), ""),
    ]
    if savings.price_per_gpu_hour is not None:
        rows.append(("money", money(savings.saved_money), money(savings.lost_money)))
    return Table(
        caption="Saved, and lost",
        columns=(Column("", Align.LEFT), Column("saved by re-use"), Column("lost")),
        rows=rows,
    )


def _source(savings: Savings) -> Sentence:
    gpus = "GPU" if savings.gpus_per_rank == 1 else f"{savings.gpus_per_rank} GPUs"
    words = (
        f"Computed from this engine's measured prefill speed: {savings.tokens_per_s:,.0f} tokens "
    )
    words += f"a second on its {gpus}, over {count(savings.measured_tokens)} timed tokens"
    if savings.price_per_gpu_hour is not None:
        words += f", and your price of {money(savings.price_per_gpu_hour)} per GPU-hour"
    return (f"{words}.",)


_TITLE = "What re-use saved"
_LIMITS: Sentence = (
    "An estimate: loading from a tier takes time too, and the queue that more computing would have "
    "meant isn't counted. On a plain CPU, read engine time for GPU time.",
)
_NOT_MEASURED: Sentence = (
    "Unknown: the engine's prefill speed isn't measured yet. It is known once some prompts have "
    "been computed while the gateway runs.",
)
