"""How a chunk's KV is written before it is sealed: as it is, or smaller and not quite the same.

`{"serde": {"type": "foreword_aead", "inner": "fp8"}}` names a lossy one. LMCache's own serdes can't
be put under another serde; these do the same arithmetic in plain torch, so they run without a GPU.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from foreword_guard.errors import CodecError

Buffer = bytes | bytearray | memoryview


class Codec(Protocol):
    """Bytes from a KV tensor, and back.

    Attributes:
        name: with everything that the bytes depend on; bound to each frame, so that what another
            codec wrote is rejected.
        exact: the bytes are the tensor's own.
    """

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool: ...

    def size(self, shape: Any, dtype: Any) -> int:
        """Bytes for a tensor of that shape; always exactly as many."""

    def encode(self, raw: memoryview, tensor: Any) -> Buffer:
        """The bytes of a chunk, given as its memory and as a tensor."""

    def decode(self, plaintext: memoryview, tensor: Any) -> None:
        """Write a chunk back into its tensor."""


class ExactCodec:
    """The KV as it is."""

    name = ""
    exact = True

    def size(self, shape: Any, dtype: Any) -> int:
        return int(shape.numel()) * int(dtype.itemsize)

    def encode(self, raw: memoryview, tensor: Any) -> Buffer:
        return raw

    def decode(self, plaintext: memoryview, tensor: Any) -> None:
        raise AssertionError("an exact codec's frames are opened in place")


def named_codec(options: Mapping[str, Any]) -> Codec:
    """The codec that a serde's options name.

    Raises:
        CodecError: there is none of that name, or it lacks an option.
    """
    name = str(options.get("inner", ""))
    if not name:
        return ExactCodec()
    from foreword_guard.lossy_codecs import AsymmetricCodec, Fp8Codec, TurboQuantCodec

    if name == "fp8":
        return Fp8Codec()
    if name == "asym_k16_v8":
        return AsymmetricCodec()
    key_bits = {"turboquant_k8v4": 8, "turboquant_4bit_nc": 4}.get(name)
    if key_bits is None:
        raise CodecError(name, "there is no such codec")
    head_dim = options.get("head_dim")
    if not isinstance(head_dim, int) or head_dim < 2 or head_dim & (head_dim - 1):
        raise CodecError(name, f"it needs head_dim, a power of two, and got {head_dim!r}")
    return TurboQuantCodec(name, head_dim=head_dim, key_bits=key_bits)
