"""Attention over a paged pool equals attention over the gathered sequence."""

from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from foreword_cpu import paged_kv

POOL_PAGES = 24
PAGE = 4
TOLERANCE = 1e-5

# The first call of a torch function takes longer than the others.
untimed = settings(deadline=None)


@st.composite
def sequences(draw: st.DrawFn) -> torch.Tensor:
    """Slots of a request: whole pages in any order, the last perhaps unfilled."""
    pages = draw(st.lists(st.integers(0, POOL_PAGES - 1), min_size=1, max_size=16, unique=True))
    slots = torch.tensor([page * PAGE + offset for page in pages for offset in range(PAGE)])
    unfilled = draw(st.integers(0, PAGE - 1))
    return slots[: len(slots) - unfilled].to(torch.int32)


def contiguous(pages: int) -> torch.Tensor:
    return torch.arange(PAGE, PAGE * (pages + 1), dtype=torch.int32)


def pools(kv_heads: int, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (POOL_PAGES * PAGE, kv_heads, size)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def naive(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
) -> torch.Tensor:
    """Every head repeated, every pair of positions compared."""
    groups = query.shape[1] // keys.shape[1]
    keys, values = (x.repeat_interleave(groups, 1).transpose(0, 1) for x in (keys, values))
    new, total = len(query), keys.shape[1]
    mask = torch.tensor([[k <= total - new + q for k in range(total)] for q in range(new)])
    output = scaled_dot_product_attention(
        query.transpose(0, 1), keys, values, attn_mask=mask, scale=scale
    )
    return output.transpose(0, 1)


@untimed
@given(sequences())
def test_runs_spell_out_the_slots(slots: torch.Tensor) -> None:
    runs = paged_kv.find_runs(slots)

    spelled = [slot for run in runs for slot in range(run.start, run.stop)]
    assert spelled == slots.tolist()
    assert all(first.stop != second.start for first, second in pairwise(runs)), (
        "neighbouring runs are one run"
    )


@untimed
@given(
    slots=sequences(),
    kv_heads=st.sampled_from([1, 3]),
    groups=st.sampled_from([1, 3, 4]),
    seed=st.integers(0, 1000),
)
def test_decode_equals_attention_over_the_gathered_sequence(
    slots: torch.Tensor, kv_heads: int, groups: int, seed: int
) -> None:
    k_pool, v_pool = pools(kv_heads, 8, seed)
    query = torch.randn(kv_heads * groups, 8, generator=torch.Generator().manual_seed(seed + 1))

    output = paged_kv.decode(query, k_pool, v_pool, slots, paged_kv.find_runs(slots), 0.3)

    expected = naive(query[None], k_pool[slots], v_pool[slots], 0.3)[0]
    torch.testing.assert_close(output, expected, atol=TOLERANCE, rtol=0)


@untimed
@given(
    slots=sequences(),
    share=st.floats(0.01, 1),
    kv_heads=st.sampled_from([1, 3]),
    groups=st.sampled_from([1, 3]),
    seed=st.integers(0, 1000),
)
def test_extend_equals_the_last_rows_of_causal_attention(
    slots: torch.Tensor, share: float, kv_heads: int, groups: int, seed: int
) -> None:
    k_pool, v_pool = pools(kv_heads, 8, seed)
    num_new = max(1, int(len(slots) * share))
    query = torch.randn(
        num_new, kv_heads * groups, 8, generator=torch.Generator().manual_seed(seed + 1)
    )
    runs = paged_kv.find_runs(slots)

    output = paged_kv.extend(
        query, paged_kv.read(k_pool, slots, runs), paged_kv.read(v_pool, slots, runs), 0.3
    )

    expected = naive(query, k_pool[slots], v_pool[slots], 0.3)
    torch.testing.assert_close(output, expected, atol=TOLERANCE, rtol=0)


def test_one_run_is_read_without_a_copy() -> None:
    pool, _ = pools(2, 8, 0)
    slots = contiguous(5)

    rows = paged_kv.read(pool, slots, paged_kv.find_runs(slots))

    assert rows.data_ptr() == pool[PAGE].data_ptr()


def test_decode_leaves_the_pool_and_the_query_alone() -> None:
    k_pool, v_pool = pools(2, 8, 0)
    query = torch.randn(4, 8)
    before = [x.clone() for x in (k_pool, v_pool, query)]
    slots = contiguous(3)

    paged_kv.decode(query, k_pool, v_pool, slots, paged_kv.find_runs(slots), 1.0)

    for changed, original in zip((k_pool, v_pool, query), before, strict=True):
        assert torch.equal(changed, original)
