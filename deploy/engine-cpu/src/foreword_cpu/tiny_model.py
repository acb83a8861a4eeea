"""`python -m foreword_cpu.tiny_model OUT`: a small model of random weights, for tests.

A Llama of 6 million parameters with a byte-level BPE tokenizer and a ChatML template. It answers
nonsense, quickly: it is for tests of what the engine caches, not of what it says. Nothing is
downloaded. The weights depend on the seed alone; the tokenizer is trained on the texts of Python's
`help()`, so it depends on the Python release too.
"""

import argparse
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, Final

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT: Final = "<|endoftext|>"
START_OF_MESSAGE: Final = "<|im_start|>"
END_OF_MESSAGE: Final = "<|im_end|>"
SPECIAL_TOKENS: Final = (END_OF_TEXT, START_OF_MESSAGE, END_OF_MESSAGE)

CHAT_TEMPLATE: Final = (
    "{% if tools %}<|im_start|>tools\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}"
    "<|im_end|>\n{% endif %}"
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "{% for call in message['tool_calls'] or [] %}"
    "\n{{ call['function']['name'] }} {{ call['function']['arguments'] | tojson }}"
    "{% endfor %}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of the model. `heads` is a multiple of `kv_heads`."""

    hidden: int = 256
    layers: int = 4
    heads: int = 8
    kv_heads: int = 4
    head_size: int = 64
    feed_forward: int = 768
    vocabulary: int = 4096
    context_tokens: int = 32_768


def write(out: Path, *, shape: Shape | None = None, seed: int = 0) -> None:
    """Write configuration, weights and tokenizer; `out` appears only when it is whole.

    Raises:
        OSError: no space, or `out` exists and is not an empty folder.
    """
    shape = shape or Shape()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        made = Path(scratch) / "model"
        made.mkdir()
        _train_tokenizer(shape.vocabulary).save(str(made / "tokenizer.json"))
        _write_json(made / "tokenizer_config.json", _tokenizer_config(shape))
        (made / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
        _write_json(made / "config.json", _config(shape))
        _write_json(made / "generation_config.json", {"eos_token_id": 2, "pad_token_id": 0})
        weights = random_weights(shape, seed=seed)
        save_file(weights, made / "model.safetensors", metadata={"format": "pt"})
        (made / "model.safetensors").chmod(0o644)
        made.rename(out)


def random_weights(shape: Shape, *, seed: int) -> dict[str, torch.Tensor]:
    """float32 weights by HF's names: normal with deviation 0.02, norms one."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * 0.02

    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    weights = {
        "model.embed_tokens.weight": matrix(shape.vocabulary, shape.hidden),
        "model.norm.weight": torch.ones(shape.hidden),
        "lm_head.weight": matrix(shape.vocabulary, shape.hidden),
    }
    for number in range(shape.layers):
        layer = f"model.layers.{number}"
        weights |= {
            f"{layer}.input_layernorm.weight": torch.ones(shape.hidden),
            f"{layer}.self_attn.q_proj.weight": matrix(queries, shape.hidden),
            f"{layer}.self_attn.k_proj.weight": matrix(keys, shape.hidden),
            f"{layer}.self_attn.v_proj.weight": matrix(keys, shape.hidden),
            f"{layer}.self_attn.o_proj.weight": matrix(shape.hidden, queries),
            f"{layer}.post_attention_layernorm.weight": torch.ones(shape.hidden),
            f"{layer}.mlp.gate_proj.weight": matrix(shape.feed_forward, shape.hidden),
            f"{layer}.mlp.up_proj.weight": matrix(shape.feed_forward, shape.hidden),
            f"{layer}.mlp.down_proj.weight": matrix(shape.hidden, shape.feed_forward),
        }
    return weights


def _train_tokenizer(vocabulary: int) -> Tokenizer:
    # Threads would merge their counts in any order.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((topics[name] for name in sorted(topics)), trainer)
    return tokenizer


def _tokenizer_config(shape: Shape) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_MESSAGE,
        "pad_token": END_OF_TEXT,
        "model_max_length": shape.context_tokens,
        "clean_up_tokenization_spaces": False,
    }


def _config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_size,
        "max_position_embeddings": shape.context_tokens,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": SPECIAL_TOKENS.index(END_OF_TEXT),
        "eos_token_id": SPECIAL_TOKENS.index(END_OF_MESSAGE),
        "pad_token_id": SPECIAL_TOKENS.index(END_OF_TEXT),
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Write the model named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m foreword_cpu.tiny_model", description=__doc__)
    parser.add_argument("out", type=Path, help="folder to make")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights (default 0)")
    chosen = parser.parse_args(arguments)
    write(chosen.out, seed=chosen.seed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
