"""The stand-in for SGLang's kernel package."""

import pytest
import sgl_kernel
import torch


def test_slots_are_written_to_each_requests_row() -> None:
    table = torch.zeros(4, 8, dtype=torch.int32)

    sgl_kernel.assign_req_to_token_pool_cpu(
        req_pool_indices=torch.tensor([2, 0]),
        req_to_token=table,
        start_offset=torch.tensor([3, 0]),
        end_offset=torch.tensor([5, 3]),
        out_cache_loc=torch.tensor([70, 71, 90, 91, 92]),
    )

    assert table[2].tolist() == [0, 0, 0, 70, 71, 0, 0, 0]
    assert table[0].tolist() == [90, 91, 92, 0, 0, 0, 0, 0]
    assert not table[[1, 3]].any()


def test_a_kernel_that_is_not_here_imports_and_says_so_when_called() -> None:
    from sgl_kernel import copy_all_layer_kv_cache_cpu

    with pytest.raises(NotImplementedError, match="copy_all_layer_kv_cache_cpu is not in"):
        copy_all_layer_kv_cache_cpu()


def test_dunder_names_are_not_kernels() -> None:
    with pytest.raises(AttributeError):
        _ = sgl_kernel.__path_of_wheel__
