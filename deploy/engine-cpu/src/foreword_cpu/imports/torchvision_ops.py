"""The two operator schemas without which torchvision does not import beside a CPU torch.

Stands in for torchvision's C++ library: the index's wheel is a CUDA build, whose library does not
load beside a CPU torch, and then `torchvision/_meta_registrations.py` fails at
`register_fake("torchvision::nms")`. SGLang only needs torchvision's Python part.

Source: sglang/srt/multimodal/internvl_utils.py:5 (sglang 0.5.23), imported by sglang.srt.configs.
"""

import importlib.machinery
from collections.abc import Sequence
from types import ModuleType

_OPERATORS = ("nms", "qnms")


class TorchvisionOpsFinder:
    """Finds nothing; defines the schemas when torchvision's registrations are about to load."""

    def __init__(self) -> None:
        self._library: object | None = None

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Always None: the real module is loaded by the next finder."""
        if name == "torchvision._meta_registrations" and self._library is None:
            self._library = _define_operators()
        return None


def _define_operators() -> object:
    """A torch library that must stay referenced: its operators vanish with it."""
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for operator in _OPERATORS:
        if not hasattr(torch.ops.torchvision, operator):
            schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(schema)  # type: ignore[no-untyped-call]
    return library
