"""A tiny model of random weights for tests: `python -m foreword_cpu.tiny_model OUT`.

Llama's shape (6 M parameters, 16,384 positions), a byte-level BPE trained on the standard library's
own sources, and ChatML. Nothing is fetched, and every run on one Python makes the same model. Its
answers mean nothing; its KV is as real as any.
"""

import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_SEED = 0
_VOCABULARY = 4096
_POSITIONS = 16_384
_TRAINING_FILES = 120
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def make(out: Path) -> None:
    """Write the model folder aside and rename it, so that no half model is ever found."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as aside:
        folder = Path(aside) / "model"
        tokenizer = _tokenizer()
        tokenizer.save_pretrained(folder)
        _model(tokenizer).save_pretrained(folder)
        folder.rename(out)


def _tokenizer() -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(_training_texts(), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=_POSITIONS,
    )
    tokenizer.chat_template = _CHATML
    return tokenizer


def _training_texts() -> Iterator[str]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(folder.glob("*.py"))[:_TRAINING_FILES]:
        yield path.read_text("utf-8", errors="ignore")


def _model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    torch.manual_seed(_SEED)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=_POSITIONS,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.pad_token_id,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config).to(torch.float32)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
