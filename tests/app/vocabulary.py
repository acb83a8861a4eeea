"""A document that holds every word the simulated model may say, so that its answers rest on it."""

from pathlib import Path

import tokenizers


def vocabulary_document(tokenizer_folder: Path) -> bytes:
    """All words of the tokenizer, each once."""
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    texts = tokenizer.decode_batch([[i] for i in range(tokenizer.get_vocab_size())])
    words = sorted({text.strip() for text in texts if text.strip().isalpha()})
    return f"The words of this island are {', '.join(words)}.\n".encode()
