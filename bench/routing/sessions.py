"""A small workload for real engines: agents in a loop, and questions about documents.

Pure. Answers are written down beforehand, so that every router is sent the same prompts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from bench.micro.words import sentences

Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much there is of what; texts in characters, of which a token has four to five."""

    agents: int = 6
    turns: int = 6
    shared: int = 1600
    instructions: int = 1800
    result: int = 700
    documents: int = 6
    document: int = 4000
    questions: int = 5
    readers: int = 2


def agent_loops(sizes: Sizes, seed: int) -> list[list[Messages]]:
    """Each agent's prompts, to be sent one after the other: each grows by a step and its result.

    All begin with the same text, then come instructions of the agent's own.
    """
    shared = sentences(Random(f"{seed}/shared"), sizes.shared)
    return [list(_loop(sizes, shared, Random(f"{seed}/agent/{n}"))) for n in range(sizes.agents)]


def reader_loops(sizes: Sizes, seed: int) -> list[list[Messages]]:
    """Each reader's questions about documents, in an order of chance."""
    source = Random(f"{seed}/documents")
    documents = [sentences(source, sizes.document) for _ in range(sizes.documents)]
    asked = [
        [{"role": "user", "content": f"{text}\n\nQuestion: {sentences(source, 80)}"}]
        for text in documents
        for _ in range(sizes.questions)
    ]
    source.shuffle(asked)
    return [asked[number :: sizes.readers] for number in range(sizes.readers)]


def _loop(sizes: Sizes, shared: str, source: Random) -> Iterator[Messages]:
    opening = f"{shared}\n\n{sentences(source, sizes.instructions)}"
    messages: Messages = [{"role": "user", "content": opening}]
    for _ in range(sizes.turns):
        yield list(messages)
        messages.append({"role": "assistant", "content": sentences(source, 100)})
        result = f"Result of the step: {sentences(source, sizes.result)}"
        messages.append({"role": "user", "content": result})
