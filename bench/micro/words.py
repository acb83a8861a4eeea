"""Text to measure with: sentences of ordinary words, the same for the same seed."""

import random

_TEXT = (
    "the ferry leaves at nine and comes back before noon when weather allows tickets for adults "
    "children groups dogs bicycles are sold on board or at the harbour office which opens daily "
    "please ask staff about delays refunds seasons islands routes meals cabins parking"
)
_WORDS = tuple(_TEXT.split())


def sentences(source: random.Random, characters: int) -> str:
    """Exactly so many characters of sentences."""
    made: list[str] = []
    length = 0
    while length < characters:
        words = source.choices(_WORDS, k=source.randint(6, 14))
        made.append(f"{' '.join(words).capitalize()}. ")
        length += len(made[-1])
    return "".join(made)[:characters]
