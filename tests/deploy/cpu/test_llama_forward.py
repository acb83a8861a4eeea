"""The arithmetic of the short Llama forward, against its textbook form."""

import pytest
import torch
from torch.nn import functional

from foreword_cpu import linear
from foreword_cpu.llama_forward import Rotation, rotate


def cos_sin_table(positions: int, size: int) -> torch.Tensor:
    """SGLang's table: cosines of each frequency, then sines."""
    frequencies = 10000 ** (-torch.arange(0, size, 2) / size)
    angles = torch.arange(positions)[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], -1)


def test_rotation_turns_each_pair_by_its_angle() -> None:
    table = cos_sin_table(50, 8)
    positions = torch.tensor([0, 7, 49])
    heads = torch.randn(3, 5, 8)

    rotated = rotate(heads, Rotation.at(positions, table))

    cos, sin = table[positions].chunk(2, -1)
    first, second = heads.chunk(2, -1)
    pairs = torch.complex(first, second) * torch.complex(cos, sin)[:, None]
    torch.testing.assert_close(rotated, torch.cat([pairs.real, pairs.imag], -1))


def test_rotation_leaves_the_first_position_alone() -> None:
    heads = torch.randn(1, 2, 8)

    assert torch.equal(rotate(heads, Rotation.at(torch.tensor([0]), cos_sin_table(1, 8))), heads)


@pytest.mark.parametrize("rows", [1, 2, 16, 33])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_packed_weight_gives_the_plain_product(rows: int, with_bias: bool) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight = torch.randn(96, 64, generator=generator)
    x = torch.randn(rows, 64, generator=generator)
    bias = torch.randn(96, generator=generator) if with_bias else None
    prepared = linear.Prepared(weight=weight, packed=linear.pack(weight))
    assert prepared.packed is not None

    expected = functional.linear(x, weight, bias)
    torch.testing.assert_close(linear.product(x, prepared, bias), expected, atol=1e-4, rtol=1e-5)


def test_one_row_goes_to_its_own_product_and_gets_the_bias() -> None:
    weight, bias = torch.randn(6, 4), torch.randn(6)
    calls = []

    def one_row(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return x @ weight.T

    prepared = linear.Prepared(weight=weight, packed=None, one_row=one_row)
    one, two = torch.randn(1, 4), torch.randn(2, 4)

    for x in (one, two):
        expected = functional.linear(x, weight, bias)
        torch.testing.assert_close(linear.product(x, prepared, bias), expected)
    assert calls == [one.shape]


@pytest.mark.parametrize(
    "weight",
    [
        torch.zeros(8, 8, dtype=torch.bfloat16),
        torch.zeros(1).expand(linear.PACKED_UP_TO_BYTES // 4096 + 1, 1024),
    ],
    ids=["bfloat16", "large"],
)
def test_other_weights_are_not_kept_twice(weight: torch.Tensor) -> None:
    assert linear.pack(weight) is None
