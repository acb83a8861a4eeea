"""The story of a request: short lines, the right figures, and what to do at the end."""

from collections.abc import Callable

import pytest

from cache.causes import ADVICE, VERDICT_OF, Cause
from cache.explain import diagnostics, explain
from cache.rows import LedgerRow
from cache.verdicts import Verdict

RowMaker = Callable[..., LedgerRow]

PARTED = {
    "token": 1269,
    "of": 1334,
    "segment": "documents",
    "document": "winter.md",
    "matched_through": "prices.md",
    "matched_parts": 3,
    "parts": 6,
    "earlier_request": "r-7",
}


def test_a_loss_is_told_with_its_figures_and_ends_with_what_to_do(make_row: RowMaker) -> None:
    row = make_row(
        collection="island",
        mode="cag",
        replica="r0",
        route_reason="affinity",
        prompt_tokens=1334,
        ideal_tokens=1264,
        predicted_tokens=1264,
        cached_tokens=448,
        cached_gpu=64,
        cached_ram=384,
        cached_ssd=0,
        cached_redis=0,
        cached_storage=384,
        new_tokens=70,
        lost={"evicted": 816},
        verdict="evicted",
        cause="cleared",
        ttft_s=0.654,
        divergence=PARTED,
    )
    assert explain(row).text == (
        "r1: evicted, cleared · docqa@1 · tenant local · collection island as cag · "
        "replica r0 (affinity) · ok\n"
        "Expected: of 1,334 tokens, 1,264 had been left by earlier requests; this replica and its "
        "tiers should have had 1,264.\n"
        "The engine re-used 448 (64 from gpu, 384 from ram); first token after 0.65 s.\n"
        "Lost: 816 tokens, evicted: the engine had it until its cache was flushed or it was "
        "restarted.\n"
        "New: 70 tokens that nobody had computed, or that always are.\n"
        "Parts from r-7 at token 1,269 of 1,334, in documents, winter.md; matched through Document "
        "3 (prices.md) of 6.\n"
        "To do: nothing, if the flush or restart was wanted; tiers (RAM, SSD) would keep the KV "
        "across it.\n"
    )


def test_a_storage_that_nobody_split_is_told_as_one(make_row: RowMaker) -> None:
    row = make_row(prompt_tokens=99, ideal_tokens=64, cached_tokens=64, cached_storage=64)
    assert "The engine re-used 64 (64 from storage)." in explain(row).lines


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_is_told_in_short_lines(cause: Cause, make_row: RowMaker) -> None:
    verdict = VERDICT_OF[cause]
    known = verdict is not Verdict.UNKNOWN
    row = make_row(
        prompt_tokens=900,
        ideal_tokens=640,
        cached_tokens=320 if known else None,
        lost={verdict.value: 320} if known else {},
        new_tokens=260 if known else None,
        verdict=verdict.value,
        cause=cause.value,
    )
    lines = explain(row).lines
    assert 4 <= len(lines) <= 10
    assert all(len(line) <= 180 for line in lines)
    assert lines[-1] == f"To do: {ADVICE[cause]}."


def test_what_is_not_known_is_never_told_as_zero(make_row: RowMaker) -> None:
    told = explain(make_row(verdict="unknown", cause="no_token_ids"))
    assert not any(word == "0" for word in told.text.split())
    assert told.json()["cached_tokens"] is None
    assert told.json()["lost"] is None


def test_a_row_without_a_verdict_is_told_too(make_row: RowMaker) -> None:
    assert explain(make_row()).lines[-1].startswith("To do: look at /readyz")


def test_a_tenant_is_not_told_what_others_have_sent(make_row: RowMaker) -> None:
    row = make_row(
        prompt_tokens=900,
        ideal_tokens=320,
        cached_tokens=320,
        new_tokens=80,
        lost={"isolated": 500},
        verdict="isolated",
        cause="other_salt",
    )
    told = explain(row, shows_other_salts=False)
    assert "isolated" not in told.text
    assert (told.row.verdict, told.row.new_tokens) == ("hit", 580)
    assert "isolated" in explain(row).text


def test_json_has_the_lines_and_the_figures(make_row: RowMaker) -> None:
    row = make_row(prompt_tokens=10, ideal_tokens=0, cached_tokens=0, verdict="cold", lost={})
    told = explain(row).json()
    assert told["schema_version"] == 1
    assert told["lines"] == list(explain(row).lines)
    assert told["lost"] == {}
    assert told["diagnostics"] is None


@pytest.mark.parametrize(
    ("cause", "changes", "reason"),
    [
        ("segment_changed", {"segment": "instructions", "document": None}, "system_changed"),
        ("documents_order", {}, "system_changed"),
        ("tools_changed", {"segment": "tools"}, "tools_changed"),
        ("history_edited", {"document": "message 3 (user)"}, "messages_changed"),
    ],
)
def test_diagnostics_have_the_shape_of_anthropics(
    cause: str, changes: dict[str, object], reason: str, make_row: RowMaker
) -> None:
    row = make_row(
        verdict="changed", cause=cause, lost={"changed": 40}, divergence=PARTED | changes
    )
    told = diagnostics(row)
    assert told is not None
    assert told["cache_miss_reason"] == {"type": reason, "cache_missed_input_tokens": 65}


def test_diagnostics_find_the_reason_where_another_loss_is_larger(make_row: RowMaker) -> None:
    told = diagnostics(
        make_row(
            verdict="evicted",
            cause="pool",
            lost={"evicted": 400, "changed": 40},
            divergence=PARTED | {"document": "message 2 (assistant)"},
        )
    )
    assert told is not None
    assert told["cache_miss_reason"]["type"] == "messages_changed"  # type: ignore[index]


def test_diagnostics_are_null_where_nothing_changed(make_row: RowMaker) -> None:
    assert diagnostics(make_row(verdict="hit", lost={}, divergence=PARTED)) is None


def test_diagnostics_are_unavailable_where_nothing_is_known(make_row: RowMaker) -> None:
    told = diagnostics(make_row(verdict="unknown", cause="events_lost"))
    assert told == {"cache_miss_reason": {"type": "unavailable"}}
