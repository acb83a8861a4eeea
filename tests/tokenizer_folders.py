"""Real tokenizers for tests: a small byte-level BPE, trained on the spot, always the same."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# The same text, and tools and their calls.
CHATML_TOOLS = (
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

_CORPUS = (
    "The ferry leaves at nine and comes back at noon. The lighthouse is open from ten to five.",
    "You answer questions from the documents below. Name the document you used in brackets.",
    "def count(words): return sum(1 for word in words if word)",
    "Prices: adults 12.50, children 6.25, dogs travel free. Call 0123 456789 for groups.",
    "system user assistant document name What does it cost? Größe, naïve, 東京",
)


# What chat templates of well-known models spell, beyond their own words, and are tokens for them.
_MARKS = re.compile(
    r"<\|[^|<>\s]+\|>|<\uff5c[^\uff5c<>\s]+\uff5c>|</?(?:think|tool_call|tool_response)>"
)
# Tokens that aren't marked special: the model says them, and they stay in its text.
_SOFT = re.compile(r"</?[a-z_]+>")


def write_model_tokenizer(folder: Path, chat_template: str, *, stop: str) -> Path:
    """A folder whose tokenizer knows the control tokens of a real model's chat template, and whose
    answers end with `stop`."""
    marks = marks_of(chat_template, stop)
    special = [*SPECIAL, *(mark for mark in marks if mark not in SPECIAL)]
    write_tokenizer(folder, chat_template=chat_template, special=special)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    for token in tokenizer["added_tokens"]:
        token["special"] = is_special(token["content"])
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")
    names = {"bos_token": SPECIAL[0], "eos_token": stop}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return folder


def marks_of(chat_template: str, stop: str) -> list[str]:
    """The control tokens that a chat template spells, and what ends an answer."""
    return sorted({*_MARKS.findall(chat_template), stop})


def is_special(mark: str) -> bool:
    """Whether a control token is marked special; the others the model says in its text."""
    return _SOFT.fullmatch(mark) is None


def write_tokenizer(
    folder: Path, *, chat_template: str = CHATML, special: Sequence[str] = SPECIAL
) -> Path:
    """A model folder with just its tokenizer and chat template."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=list(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS * 4, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(chat_template)
    return folder
