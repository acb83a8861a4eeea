"""HiCache's copies bring back what they took, in both layouts, and touch nothing else."""

import pytest
import torch

from foreword_cpu import host_pool, streams

PAGE = 4
LAYERS = 3
SHAPE = (2, 5)
DEVICE_SLOTS = 40
HOST_PAGES = 12


def device_pool(seed: int) -> list[torch.Tensor]:
    """K of each layer, then V of each layer."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(DEVICE_SLOTS, *SHAPE, generator=generator) for _ in range(2 * LAYERS)]


def slots_of(pages: list[int]) -> torch.Tensor:
    return torch.tensor([page * PAGE + offset for page in pages for offset in range(PAGE)])


DEVICE = slots_of([7, 2, 5])
HOST = slots_of([1, 11, 4])
ELSEWHERE = slots_of([0, 9, 3])


def test_page_first_direct_brings_back_what_it_took() -> None:
    device = device_pool(0)
    host = [torch.zeros(HOST_PAGES, LAYERS, PAGE, *SHAPE) for _ in range(2)]

    host_pool.transfer_kv_all_layer_direct_lf_pf(device, host, DEVICE, HOST, PAGE)
    restored = [torch.zeros_like(layer) for layer in device]
    for layer in range(LAYERS):
        targets = [restored[layer], restored[LAYERS + layer]]
        host_pool.transfer_kv_per_layer_direct_pf_lf(host, targets, HOST, ELSEWHERE, layer, PAGE)

    for original, copy in zip(device, restored, strict=True):
        assert torch.equal(copy[ELSEWHERE], original[DEVICE])
        copy[ELSEWHERE] = 0
        assert not copy.any()
    assert not host[0][[0, 2, 3, 5, 6, 7, 8, 9, 10]].any()


def test_layer_first_brings_back_what_it_took() -> None:
    device = device_pool(1)
    host = [torch.zeros(HOST_PAGES * PAGE, *SHAPE) for _ in device]

    host_pool.transfer_kv_direct(device, host, DEVICE, HOST, PAGE)
    restored = [torch.zeros_like(layer) for layer in device]
    host_pool.transfer_kv_direct(host, restored, HOST, ELSEWHERE, PAGE)

    for original, copy in zip(device, restored, strict=True):
        assert torch.equal(copy[ELSEWHERE], original[DEVICE])


def test_page_numbers_are_one_per_page() -> None:
    assert host_pool.page_numbers(HOST, PAGE).tolist() == [1, 11, 4]


def test_pinning_is_refused_whatever_the_caller_asks_for() -> None:
    class Pool:
        def __init__(self, size: int, pin_memory: bool = True) -> None:
            self.pinned = pin_memory

    Pool.__init__ = host_pool._unpinned(Pool.__init__)  # type: ignore[method-assign]

    assert not Pool(1).pinned
    assert not Pool(1, pin_memory=True).pinned


def test_an_event_is_always_over_and_keeps_its_time() -> None:
    first, second = streams.Event(enable_timing=True), streams.Event(enable_timing=True)
    first.record()
    second.record(streams.Stream())

    assert first.query()
    assert first.elapsed_time(second) == pytest.approx(-second.elapsed_time(first))
    assert first.elapsed_time(second) >= 0
