"""Texts to token ids, without stopping the process's other threads for long ones."""

import tokenizers

# From here on, what it costs to hand a text to the library's own threads doesn't count.
_LONG_CHARACTERS = 4096


def encoded(encoder: tokenizers.Tokenizer, text: str) -> tokenizers.Encoding:
    """The text's encoding by itself, no special token added.

    `encode` holds Python's lock for as long as it takes, a third of a second for 70,000 tokens;
    `encode_batch` lets it go.
    """
    if len(text) < _LONG_CHARACTERS:
        return encoder.encode(text, add_special_tokens=False)
    (encoding,) = encoder.encode_batch([text], add_special_tokens=False)
    return encoding
