"""How much memory well-known GPUs have, as their driver says it.

`total_mib` is what `nvidia-smi` shows (`rocm-smi` for AMD), less than the number on the box. It is
also what SGLang reads to pick its `--mem-fraction-static`. Of this memory the driver and the CUDA
context take about 1 GiB before any weight is loaded.

Source: `nvidia-smi --query-gpu=memory.total` outputs in public logs. For what is left before
loading: SGLang's own line "Load weight begin. avail mem", 78.4-78.8 GiB on an H100 (of 79.6), 43.6
on an L40S (of 45.0), 22.8-22.9 on an RTX 4090 (of 24.0).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cache.errors import GpuNotFoundError

TAKEN_BEFORE_LOADING_MIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU; `name` is None where only its memory was told."""

    name: str | None
    total_mib: float


_TOTALS: Mapping[str, int] = MappingProxyType(
    {
        "A10": 23028,
        "A10G": 23028,
        "A100-40GB": 40960,
        "A100-80GB": 81920,
        "A40": 46068,
        "B200": 183359,
        "GH200-96GB": 97871,
        "H100": 81559,
        "H100-NVL": 95830,
        "H20": 97871,
        "H200": 143771,
        "L20": 46068,
        "L4": 23034,
        "L40": 46068,
        "L40S": 46068,
        "RTX-3090": 24576,
        "RTX-4090": 24564,
        "RTX-5090": 32607,
        "RTX-6000-Ada": 49140,
        "RTX-A6000": 49140,
        "RTX-PRO-6000": 97887,
        "T4": 15360,
    }
)
_OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "A100": "A100-80GB",
        "A100 80GB PCIe": "A100-80GB",
        "A100-PCIE-40GB": "A100-40GB",
        "A100-SXM4-40GB": "A100-40GB",
        "A100-SXM4-80GB": "A100-80GB",
        "GH200": "GH200-96GB",
        "H100 80GB": "H100",
        "H100 80GB HBM3": "H100",
        "H100 NVL": "H100-NVL",
        "H100 PCIe": "H100",
        "Tesla T4": "T4",
    }
)


def find_gpu(name: str) -> Gpu:
    """A GPU by its name, however it is spelled, the driver's own spelling included.

    Raises:
        GpuNotFoundError: it isn't in the table.
    """
    wanted = _plain(name)
    for known, total in _TOTALS.items():
        if _plain(known) == wanted:
            return Gpu(name=known, total_mib=total)
    for other, known in _OTHER_NAMES.items():
        if _plain(other) == wanted:
            return Gpu(name=known, total_mib=_TOTALS[known])
    raise GpuNotFoundError(name=name, known=gpu_names())


def gpu_names() -> tuple[str, ...]:
    """All that are known, sorted."""
    return tuple(sorted(_TOTALS))


def _plain(name: str) -> str:
    text = name.lower().replace("geforce", "").replace("nvidia", "")
    return "".join(letter for letter in text if letter.isalnum())
