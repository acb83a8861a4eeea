"""The one-row product, in the engine's environment: it needs numba, which only that has."""

import subprocess

import pytest

pytestmark = pytest.mark.engine

PROGRAM = """
import torch
from torch.nn import functional
from foreword_cpu import row_kernel

def worst(weight, x):
    exact = functional.linear(x.double(), weight.double())
    return (row_kernel.for_weight(weight)(x) - exact).abs().max().item()

for seed, (rows, columns) in enumerate([(1, 1), (7, 3), (96, 64), (1000, 577)]):
    torch.manual_seed(seed)
    x = torch.randn(1, columns)
    plain = torch.randn(rows, columns)
    for weight in (plain, plain.bfloat16().float()):
        assert worst(weight, x) < 2e-4, (rows, columns, worst(weight, x))

special = torch.tensor([[0.0, -0.0, 1e-40, -3.0e38], [1.0, 2.0, -0.5, 1e-3]])
x = torch.tensor([[1.0, 1.0, 1.0, 1e-38]])
assert worst(special, x) < 1e-6
assert worst(special.bfloat16().float(), x) < 1e-6

halves = torch.randn(8, 8).bfloat16().float()
before = row_kernel.for_weight(halves)
halves.zero_()
assert before(torch.ones(1, 8)).any(), "kept as bfloat16, so it is a copy"
print("good")
"""


def test_one_row_products_are_exact_for_both_kinds_of_weight(cpu_python: str) -> None:
    done = subprocess.run(
        [cpu_python, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.stdout == "good\n", done.stderr[-2000:]
