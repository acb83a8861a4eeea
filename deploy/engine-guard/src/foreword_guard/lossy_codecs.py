"""Codecs that make KV smaller and not quite the same, in plain torch.

The schemes are LMCache's (lmcache 0.5.6, v1/distributed/serde/fp8.py, asym_k16_v8.py, turboquant/),
the bytes are not: its `turboquant` needs CUDA, its `asym_k16_v8` 16-bit KV, and none can be put
under another serde. Chunks are [2 (K, V), layers, tokens, heads * head_dim].
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

_FP8 = torch.float8_e4m3fn
_FP8_MAX = float(torch.finfo(_FP8).max)
# As LMCache's turboquant: the layers at both ends are the sensitive ones, and stay as they are.
_RAW_LAYERS_AT_EACH_END = 2


class _Writer:
    """Fills one buffer with the bytes of tensors, one after another."""

    def __init__(self, size: int) -> None:
        self.out = torch.empty(size, dtype=torch.uint8)
        self._at = 0

    def add(self, tensor: torch.Tensor) -> None:
        raw = tensor.contiguous().view(torch.uint8).flatten()
        self.out[self._at : self._at + raw.numel()].copy_(raw)
        self._at += raw.numel()

    def bytes(self) -> memoryview:
        assert self._at == self.out.numel()
        return memoryview(self.out.numpy().data)


class _Reader:
    """Takes them out again, as views."""

    def __init__(self, plaintext: memoryview) -> None:
        self._raw = torch.frombuffer(plaintext, dtype=torch.uint8)
        self._at = 0

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        size = math.prod(shape) * dtype.itemsize
        # Copied, so that it is aligned for any type.
        raw = self._raw[self._at : self._at + size].clone()
        self._at += size
        return raw.view(dtype).reshape(shape)


class Fp8Codec:
    """Each number as float8 (e4m3), larger ones than it has cut off at its largest."""

    name = "fp8"
    exact = False

    def size(self, shape: Any, dtype: Any) -> int:
        return int(shape.numel())

    def encode(self, raw: memoryview, tensor: torch.Tensor) -> memoryview:
        writer = _Writer(self.size(tensor.shape, tensor.dtype))
        writer.add(_to_fp8(tensor))
        return writer.bytes()

    def decode(self, plaintext: memoryview, tensor: torch.Tensor) -> None:
        tensor.copy_(_from_fp8(_Reader(plaintext).take(tuple(tensor.shape), torch.uint8)))


class AsymmetricCodec:
    """Keys as they are; values as float8 with one scale for each token of each layer."""

    name = "asym_k16_v8"
    exact = False

    def size(self, shape: Any, dtype: Any) -> int:
        _, layers, tokens, hidden = _pair(shape)
        return int(layers * tokens * (hidden * (dtype.itemsize + 1) + 4))

    def encode(self, raw: memoryview, tensor: torch.Tensor) -> memoryview:
        writer = _Writer(self.size(tensor.shape, tensor.dtype))
        values = tensor[1].to(torch.float32)
        scale = values.abs().amax(dim=-1, keepdim=True).clamp_min(1e-12) / _FP8_MAX
        writer.add(tensor[0])
        writer.add(scale)
        writer.add(_to_fp8(values / scale))
        return writer.bytes()

    def decode(self, plaintext: memoryview, tensor: torch.Tensor) -> None:
        _, layers, tokens, hidden = _pair(tensor.shape)
        reader = _Reader(plaintext)
        tensor[0].copy_(reader.take((layers, tokens, hidden), tensor.dtype))
        scale = reader.take((layers, tokens, 1), torch.float32)
        values = reader.take((layers, tokens, hidden), torch.uint8)
        tensor[1].copy_(_from_fp8(values) * scale)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A chunk's tensor, cut into the layers that stay as they are and the others."""

    first_raw: int
    quantized: int
    last_raw: int
    tokens: int
    heads: int
    head_dim: int

    @property
    def hidden(self) -> int:
        return self.heads * self.head_dim

    @property
    def vectors(self) -> tuple[int, int, int]:
        return self.quantized, self.tokens, self.heads


class TurboQuantCodec:
    """Keys in 8 bits, or rotated and in 4; values in 4 bits with a scale for each vector.

    Args:
        head_dim: a power of two that divides the chunk's width.
        key_bits: 8 (float8), or 4: the key's direction is rotated (signs and a Hadamard matrix, of
            each layer's own) so that its components are nearly normal, each is replaced by the
            nearest of 16 optimal levels, and the length is kept apart.
    """

    exact = False

    def __init__(self, preset: str, *, head_dim: int, key_bits: int) -> None:
        self.name = f"{preset}/{head_dim}"
        self._head_dim = head_dim
        self._key_bits = key_bits

    def size(self, shape: Any, dtype: Any) -> int:
        cut = self._cut(shape)
        raw = 2 * (cut.first_raw + cut.last_raw) * cut.tokens * cut.hidden * dtype.itemsize
        key_bytes = cut.head_dim if self._key_bits == 8 else cut.head_dim // 2 + 2
        return int(raw + math.prod(cut.vectors) * (key_bytes + cut.head_dim // 2 + 4))

    def encode(self, raw: memoryview, tensor: torch.Tensor) -> memoryview:
        cut = self._cut(tensor.shape)
        writer = _Writer(self.size(tensor.shape, tensor.dtype))
        middle = slice(cut.first_raw, cut.first_raw + cut.quantized)
        writer.add(tensor[:, : cut.first_raw])
        writer.add(tensor[:, middle.stop :])
        keys, values = tensor[:, middle].to(torch.float32).reshape(2, *cut.vectors, cut.head_dim)
        for part in (*self._coded_keys(keys, cut), *_coded_values(values)):
            writer.add(part)
        return writer.bytes()

    def decode(self, plaintext: memoryview, tensor: torch.Tensor) -> None:
        cut = self._cut(tensor.shape)
        reader = _Reader(plaintext)
        ends = ((0, cut.first_raw), (cut.first_raw + cut.quantized, tensor.shape[1]))
        for start, stop in ends:
            shape = (2, stop - start, cut.tokens, cut.hidden)
            tensor[:, start:stop].copy_(reader.take(shape, tensor.dtype))
        flat = (cut.quantized, cut.tokens, cut.hidden)
        middle = slice(cut.first_raw, cut.first_raw + cut.quantized)
        tensor[0, middle].copy_(self._keys(reader, cut).reshape(flat))
        tensor[1, middle].copy_(_values(reader, cut).reshape(flat))

    def _coded_keys(self, keys: torch.Tensor, cut: _Shape) -> Iterator[torch.Tensor]:
        if self._key_bits == 8:
            yield _to_fp8(keys)
            return
        lengths = keys.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        rotated = torch.einsum("lthd,lde->lthe", keys / lengths, _rotations(cut))
        levels = _levels(cut.head_dim)
        yield _packed(torch.bucketize(rotated, (levels[1:] + levels[:-1]) / 2))
        yield lengths.to(torch.float16)

    def _keys(self, reader: _Reader, cut: _Shape) -> torch.Tensor:
        if self._key_bits == 8:
            return _from_fp8(reader.take((*cut.vectors, cut.head_dim), torch.uint8))
        codes = reader.take((*cut.vectors, cut.head_dim // 2), torch.uint8)
        lengths = reader.take((*cut.vectors, 1), torch.float16).to(torch.float32)
        rotated = _levels(cut.head_dim)[_unpacked(codes).long()]
        # Quantizing changes the length a little, which is known to be 1.
        rotated = rotated / rotated.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        return torch.einsum("lthe,lde->lthd", rotated, _rotations(cut)) * lengths

    def _cut(self, shape: Any) -> _Shape:
        _, layers, tokens, hidden = _pair(shape)
        if hidden % self._head_dim:
            raise ValueError(f"KV of width {hidden} has no heads of {self._head_dim}")
        first = min(_RAW_LAYERS_AT_EACH_END, layers)
        last = min(_RAW_LAYERS_AT_EACH_END, layers - first)
        heads = hidden // self._head_dim
        return _Shape(first, layers - first - last, last, tokens, heads, self._head_dim)


def _coded_values(values: torch.Tensor) -> Iterator[torch.Tensor]:
    low = values.amin(dim=-1, keepdim=True).to(torch.float16)
    spread = values.amax(dim=-1, keepdim=True) - low
    step = (spread / 15).clamp_min(1e-7).to(torch.float16)
    codes = ((values - low) / step.to(torch.float32)).round().clamp(0, 15)
    yield _packed(codes)
    yield step
    yield low


def _values(reader: _Reader, cut: _Shape) -> torch.Tensor:
    codes = _unpacked(reader.take((*cut.vectors, cut.head_dim // 2), torch.uint8))
    step = reader.take((*cut.vectors, 1), torch.float16).to(torch.float32)
    low = reader.take((*cut.vectors, 1), torch.float16).to(torch.float32)
    return codes.to(torch.float32) * step + low


def _to_fp8(tensor: torch.Tensor) -> torch.Tensor:
    """Torch gives NaN for what is too large on some machines, and the largest number on others."""
    return tensor.to(torch.float32).clamp(-_FP8_MAX, _FP8_MAX).to(_FP8)


def _from_fp8(codes: torch.Tensor) -> torch.Tensor:
    """The numbers of float8 codes, by way of float16; torch's own way takes several times longer.

    Both have a sign, an exponent and a mantissa in this order, so shifted into place a code is the
    number over 2**8 (the difference of the two exponents' biases), exactly.
    """
    wide = codes.to(torch.int16)
    half = ((wide & 0x80) << 8) | ((wide & 0x7F) << 7)
    return half.view(torch.float16).to(torch.float32) * 256.0


def _packed(codes: torch.Tensor) -> torch.Tensor:
    halves = codes.to(torch.uint8)
    return halves[..., 0::2] | (halves[..., 1::2] << 4)


def _unpacked(packed: torch.Tensor) -> torch.Tensor:
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)


def _rotations(cut: _Shape) -> torch.Tensor:
    """[layers, head_dim, head_dim], orthonormal."""
    from lmcache.v1.distributed.serde.turboquant.turboquant import (
        _TQ_LAYER_SEED_STRIDE,
        _build_hadamard_cpu,
        _generate_wht_signs,
    )

    hadamard = _build_hadamard_cpu(cut.head_dim)
    cpu = torch.device("cpu")
    layers = range(cut.first_raw, cut.first_raw + cut.quantized)
    seeds = [42 + layer * _TQ_LAYER_SEED_STRIDE for layer in layers]
    signs = [_generate_wht_signs(cut.head_dim, seed=seed, device=cpu) for seed in seeds]
    if not signs:
        return torch.empty((0, cut.head_dim, cut.head_dim))
    rotations: torch.Tensor = torch.stack(signs).unsqueeze(-1) * hadamard
    return rotations


def _levels(head_dim: int) -> torch.Tensor:
    """The 16 levels that are best for the components of a random direction."""
    from lmcache.v1.distributed.serde.turboquant.turboquant import _solve_lloyd_max

    levels: torch.Tensor = _solve_lloyd_max(head_dim, 4)[0]
    return levels


def _pair(shape: Any) -> tuple[int, int, int, int]:
    """The shape of a chunk of keys and values.

    Raises:
        ValueError: it is something else, such as MLA's latent KV.
    """
    if len(shape) != 4 or shape[0] != 2:
        raise ValueError(f"KV of shape {tuple(shape)} is not [2, layers, tokens, width]")
    return int(shape[0]), int(shape[1]), int(shape[2]), int(shape[3])
