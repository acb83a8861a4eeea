"""KV comes back nearly the same from fewer bytes, whatever is in it."""

import pytest
import torch

from foreword_guard.codecs import Codec, named_codec
from foreword_guard.lossy_codecs import _from_fp8

# [K and V, layers, tokens, 2 heads of 32]
SHAPE = (2, 6, 16, 64)
CODECS = ["fp8", "asym_k16_v8", "turboquant_k8v4"]
# float32 against what is stored; asym keeps its keys, turboquant 4 of the 6 layers.
SMALLER = {"fp8": 4.0, "asym_k16_v8": 1.5, "turboquant_k8v4": 1.25}
NEAR = {"fp8": 0.04, "asym_k16_v8": 0.04, "turboquant_k8v4": 0.1}


def made(name: str) -> Codec:
    return named_codec({"inner": name, "head_dim": 32})


def there_and_back(codec: Codec, kv: torch.Tensor) -> torch.Tensor:
    plaintext = codec.encode(memoryview(b""), kv)
    assert len(plaintext) == codec.size(kv.shape, kv.dtype)
    back = torch.full_like(kv, float("nan"))
    codec.decode(memoryview(bytearray(plaintext)), back)
    return back


def drift(back: torch.Tensor, kv: torch.Tensor) -> float:
    return float((back.float() - kv.float()).norm() / kv.float().norm())


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kv_comes_back_nearly_the_same(name: str, dtype: torch.dtype) -> None:
    kv = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)).to(dtype)

    assert drift(there_and_back(made(name), kv), kv) < NEAR[name]


@pytest.mark.parametrize("name", CODECS)
def test_it_takes_fewer_bytes(name: str) -> None:
    shape = torch.Size(SHAPE)

    assert shape.numel() * 4 >= SMALLER[name] * made(name).size(shape, torch.float32)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("kv", [torch.zeros(SHAPE), torch.full(SHAPE, 7.5), torch.ones(SHAPE) * -3])
def test_constant_kv_comes_back_as_it_was(name: str, kv: torch.Tensor) -> None:
    assert torch.allclose(there_and_back(made(name), kv), kv, atol=1e-3)


def test_numbers_beyond_float8_are_cut_off_and_not_lost() -> None:
    kv = torch.full(SHAPE, 1e6)

    assert torch.equal(there_and_back(made("fp8"), kv), torch.full(SHAPE, 448.0))


def test_keys_stay_exact_where_only_values_are_smaller() -> None:
    kv = torch.randn(SHAPE)
    back = there_and_back(made("asym_k16_v8"), kv)

    assert torch.equal(back[0], kv[0])
    assert not torch.equal(back[1], kv[1])


def test_the_layers_at_both_ends_stay_exact_under_turboquant() -> None:
    kv = torch.randn(SHAPE)
    back = there_and_back(made("turboquant_k8v4"), kv)

    for layer in (0, 1, 4, 5):
        assert torch.equal(back[:, layer], kv[:, layer])


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_a_model_of_few_layers_is_stored_whole(layers: int) -> None:
    kv = torch.randn((2, layers, 16, 64))

    assert torch.equal(there_and_back(made("turboquant_k8v4"), kv), kv)


@pytest.mark.parametrize("shape", [(6, 16, 64), (1, 6, 16, 64), (2, 6, 16, 48)])
def test_kv_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="KV of"):
        made("turboquant_k8v4").encode(memoryview(b""), torch.zeros(shape))


def test_what_the_bytes_depend_on_is_in_the_name() -> None:
    names = {made(name).name for name in CODECS}
    names.add(named_codec({"inner": "turboquant_k8v4", "head_dim": 64}).name)
    names.add(named_codec({}).name)

    assert len(names) == 5


def test_every_float8_is_read_as_torch_reads_it() -> None:
    numbers = [code for code in range(256) if code & 0x7F != 0x7F]
    codes = torch.tensor(numbers, dtype=torch.uint8)

    assert torch.equal(_from_fp8(codes), codes.view(torch.float8_e4m3fn).to(torch.float32))
