"""`python -m foreword_guard.drift MODEL`: what each lossy codec saves, costs and changes.

One JSON object a line, for each codec: bytes of a chunk before and after, CPU milliseconds to write
and to read one, and how far the log-probabilities of the next tokens move when a prompt's KV has
been through it. No engine is needed: the model's folder is loaded by transformers, and its KV is
what SGLang's is (keys after their rotation). The text is from Python's own documentation.
"""

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch

from foreword_guard.codecs import Codec, named_codec
from foreword_guard.errors import CodecError

CODECS = ("fp8", "asym_k16_v8", "turboquant_k8v4", "turboquant_4bit_nc")
_CHUNK_TOKENS = 64
_PROMPT_CHUNKS = 8
_NEXT_TOKENS = 128
_ROUNDS = 10


def main() -> None:
    """Print a line for each codec."""
    parser = argparse.ArgumentParser(prog="foreword_guard.drift")
    parser.add_argument("model", type=Path, help="the model's folder")
    parser.add_argument("--codec", action="append", choices=CODECS, help="all by default")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, ids = _loaded(arguments.model)
    for name in arguments.codec or CODECS:
        sys.stdout.write(json.dumps(_measured(model, ids, name)) + "\n")
        sys.stdout.flush()


def _loaded(folder: Path) -> tuple[Any, torch.Tensor]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    text = " ".join(topics[name] for name in ("types", "objects", "execmodel"))
    tokens = AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    wanted = _CHUNK_TOKENS * _PROMPT_CHUNKS + _NEXT_TOKENS
    return model.eval(), torch.tensor([tokens[:wanted]])


@torch.no_grad()
def _measured(model: Any, ids: torch.Tensor, name: str) -> dict[str, object]:
    prompt, following = ids[:, :-_NEXT_TOKENS], ids[:, -_NEXT_TOKENS:]
    exact = model(prompt, use_cache=True).past_key_values
    head_dim = int(exact.layers[0].keys.shape[-1])
    try:
        codec = named_codec({"inner": name, "head_dim": head_dim})
    except CodecError as error:
        return {"codec": name, "problem": str(error)}
    lossy = copy.deepcopy(exact)
    chunks = [_chunk(exact, index) for index in range(_PROMPT_CHUNKS)]
    for index, chunk in enumerate(chunks):
        _put(lossy, index, _there_and_back(codec, chunk))
    figures = _costs(codec, chunks[0])
    return {"codec": name} | figures | _drift(model, following, exact, lossy)


def _chunk(cache: Any, index: int) -> torch.Tensor:
    """[2, layers, tokens, heads * head_dim], as LMCache stores it."""
    tokens = slice(index * _CHUNK_TOKENS, (index + 1) * _CHUNK_TOKENS)
    rows = [
        [getattr(layer, part)[0, :, tokens].transpose(0, 1).flatten(1) for layer in cache.layers]
        for part in ("keys", "values")
    ]
    return torch.stack([torch.stack(row) for row in rows])


def _put(cache: Any, index: int, chunk: torch.Tensor) -> None:
    tokens = slice(index * _CHUNK_TOKENS, (index + 1) * _CHUNK_TOKENS)
    for part, planes in zip(("keys", "values"), chunk, strict=True):
        for layer, plane in zip(cache.layers, planes, strict=True):
            kept = getattr(layer, part)[0, :, tokens]
            kept.copy_(plane.unflatten(1, (kept.shape[0], -1)).transpose(0, 1))


def _there_and_back(codec: Codec, chunk: torch.Tensor) -> torch.Tensor:
    back = torch.empty_like(chunk)
    codec.decode(memoryview(bytearray(codec.encode(memoryview(b""), chunk))), back)
    return back


def _costs(codec: Codec, chunk: torch.Tensor) -> dict[str, object]:
    raw, back = memoryview(b""), torch.empty_like(chunk)
    plaintext = memoryview(bytearray(codec.encode(raw, chunk)))
    return {
        "chunk_bytes": chunk.numel() * chunk.itemsize,
        "stored_bytes": len(plaintext),
        "write_ms": _cpu_ms(lambda: codec.encode(raw, chunk)),
        "read_ms": _cpu_ms(lambda: codec.decode(plaintext, back)),
    }


def _cpu_ms(work: Callable[[], object]) -> float:
    """The least of several rounds: what else the machine does takes time, not CPU time."""
    rounds = []
    for _ in range(_ROUNDS):
        started_s = time.process_time()
        work()
        rounds.append(time.process_time() - started_s)
    return round(1000 * min(rounds), 2)


def _drift(model: Any, following: torch.Tensor, exact: Any, lossy: Any) -> dict[str, object]:
    """Log-probabilities of the same next tokens, with the exact KV and with the other."""
    tables = [
        torch.log_softmax(model(following, past_key_values=cache).logits[0, :-1], dim=-1)
        for cache in (exact, lossy)
    ]
    moved = [table.gather(1, following[0, 1:, None])[:, 0] for table in tables]
    difference = (moved[0] - moved[1]).abs()
    return {
        "next_tokens": len(difference),
        "mean_drift": round(float(difference.mean()), 5),
        "largest_drift": round(float(difference.max()), 5),
        "same_first_choice": round(
            float((tables[0].argmax(-1) == tables[1].argmax(-1)).float().mean()), 4
        ),
        "kl_divergence": round(
            float((tables[0].exp() * (tables[0] - tables[1])).sum(-1).mean()), 6
        ),
    }


if __name__ == "__main__":
    main()
