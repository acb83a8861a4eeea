"""Questions about documents that stand in the prompt, laid out well or badly. Pure.

The same seed asks the same questions about the same documents in each layout, so that layouts can
be compared: what differs is only where things stand.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bench.errors import WorkloadError
from bench.workloads.chance import Chance, Popularity
from bench.workloads.file import JSONObject, WorkloadRequest, asked
from bench.workloads.vocabulary import Vocabulary

_RULES = (
    "You answer questions from the documents below. Use nothing but these documents. Name the "
    "document that you used. If the documents do not have the answer, say so in one sentence."
)
_WORD = re.compile(r"\w{4,}")
_QUESTION_WORDS = 6
_CLOCK_STEP_S = 7


class Layout(StrEnum):
    """Where things stand in the prompt."""

    SCAFFOLD_FIRST = "scaffold-first"
    """Rules, documents, question: what changes most comes last."""
    USER_FIRST = "user-first"
    """The question, then rules and documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentQuestions:
    """What is asked.

    Attributes:
        documents_per_question: which of them is drawn by popularity.
        clock: a time that moves from request to request stands on top.
        shuffled: a question's documents come in another order each time, not in that of names.
        word: what a document is called in the prompt; changing it changes every prompt.
        collection: of the gateway: it puts the documents into the prompt, in its own layout.
        mode: `rag`, `cag` or `auto`; with a collection only.
    """

    questions: int = 100
    documents_per_question: int = 1
    skew: float = 1.0
    output_len: int = 64
    layout: Layout = Layout.SCAFFOLD_FIRST
    clock: bool = False
    shuffled: bool = False
    word: str = "Document"
    collection: str | None = None
    mode: str | None = None


def made_documents(count: int, length: int, vocabulary: Vocabulary, seed: int) -> dict[str, str]:
    """Documents of nothing but words, so long each."""
    source = Chance(seed, "documents")
    return {
        f"document-{number:04d}": vocabulary.text(source.child(number), length)
        for number in range(count)
    }


def document_questions(
    documents: Mapping[str, str], spec: DocumentQuestions, seed: int
) -> Iterator[WorkloadRequest]:
    """The requests.

    Raises:
        WorkloadError: there is no document, or fewer than a question wants.
    """
    names = sorted(documents)
    if not 0 < spec.documents_per_question <= len(names):
        problem = f"a question wants {spec.documents_per_question}, and there are {len(names)}"
        raise WorkloadError("the documents", problem)
    popularity = Popularity(len(names), spec.skew)
    ranked = Chance(seed, "popularity").sample(names, len(names))
    for number in range(spec.questions):
        source = Chance(seed, f"question/{number}")
        chosen: dict[str, None] = {}
        while len(chosen) < spec.documents_per_question:
            chosen[ranked[popularity.pick(source)]] = None
        shown = sorted(chosen)
        question = _question(next(iter(chosen)), documents, source)
        if spec.shuffled:
            Chance(seed, f"order/{number}").shuffle(shown)
        yield asked(
            _body({name: documents[name] for name in shown}, question, number, spec),
            id=f"question-{number}",
            max_tokens=spec.output_len,
            labels={"document": next(iter(chosen))},
        )


def _question(name: str, documents: Mapping[str, str], source: Chance) -> str:
    words = sorted(set(_WORD.findall(documents[name]))) or [name]
    asked_for = " ".join(source.sample(words, _QUESTION_WORDS))
    return f"What does it say about {asked_for}?"


def _body(
    shown: Mapping[str, str], question: str, number: int, spec: DocumentQuestions
) -> JSONObject:
    clock = f"The time is {_time(number)}.\n\n" if spec.clock else ""
    if spec.collection is not None:
        about = {"collection": spec.collection} | ({"mode": spec.mode} if spec.mode else {})
        messages = [{"role": "user", "content": f"{clock}{question}"}]
        return {"messages": messages, "foreword": about}
    texts = "\n\n".join(f"{spec.word} {name}:\n{text}" for name, text in shown.items())
    context = f"{_RULES}\n\n{texts}"
    if spec.layout is Layout.USER_FIRST:
        return {"messages": [{"role": "user", "content": f"{clock}{question}\n\n{context}"}]}
    return {
        "messages": [
            {"role": "system", "content": f"{clock}{context}"},
            {"role": "user", "content": question},
        ]
    }


def _time(number: int) -> str:
    seconds = number * _CLOCK_STEP_S
    hours, rest = divmod(9 * 3600 + seconds, 3600)
    return f"{hours % 24:02d}:{rest // 60:02d}:{rest % 60:02d}"
