"""What a re-ranking process and its owner say to each other, framed as in `embed_wire`."""

import msgspec


class Ask(msgspec.Struct, frozen=True):
    """A question and the texts to score for it."""

    query: str
    texts: list[str]


class Ready(msgspec.Struct, frozen=True):
    """The model is loaded; or it can't be, and why."""

    problem: str | None = None


class Scores(msgspec.Struct, frozen=True):
    """A score for each text; or none, and why."""

    scores: list[float] = []
    problem: str | None = None
