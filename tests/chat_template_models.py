"""Five well-known models whose own chat templates tests use, one of which strips reasoning."""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.tokenizer_folders import is_special, marks_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model: the file of its template, what ends its answers, and how they begin."""

    file: str
    stop: str
    opening: str = ""


MODELS = {
    "deepseek": Model(file="deepseek-ai-DeepSeek-V3.1", stop="<\uff5cend▁of▁sentence\uff5c>"),
    "granite": Model(file="ibm-granite-granite-4.0", stop="<|end_of_text|>"),
    "kimi": Model(file="moonshotai-Kimi-K2", stop="<|im_end|>"),
    "llama": Model(file="meta-llama-Llama-3.1-8B-Instruct", stop="<|eot_id|>"),
    "qwen3": Model(
        file="Qwen-Qwen3-0.6B", stop="<|im_end|>", opening="<think>\nThe ferry\n</think>\n\n"
    ),
}
STRIPS_REASONING = "qwen3"
SHOWS_NO_TOOLS = "deepseek"


def swapped(model_folder: Path, folder: Path, chat_template: str, *, stop: str) -> Path:
    """Another chat template for a model: its control tokens take the place of the last tokens of
    the model's vocabulary, so that the engine knows the ids of all of them."""
    tokenizer = json.loads((model_folder / "tokenizer.json").read_text("utf-8"))
    vocabulary, added = tokenizer["model"]["vocab"], tokenizer["added_tokens"]
    known = {token["content"] for token in added}
    marks = [mark for mark in marks_of(chat_template, stop) if mark not in known]
    by_id = sorted(vocabulary.items(), key=lambda item: -item[1])[: len(marks)]
    gone = {word for word, _ in by_id}
    for mark, (word, token_id) in zip(marks, by_id, strict=True):
        del vocabulary[word]
        added.append({
            "id": token_id, "content": mark, "special": is_special(mark),
            "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
        })  # fmt: skip
    tokenizer["model"]["merges"] = [
        merge for merge in tokenizer["model"]["merges"] if "".join(_pair(merge)) not in gone
    ]
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")
    names = {"bos_token": "<|endoftext|>", "eos_token": stop}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    (folder / "chat_template.jinja").write_text(chat_template, "utf-8")
    return folder


def _pair(merge: str | list[str]) -> list[str]:
    return merge.split(" ") if isinstance(merge, str) else merge
