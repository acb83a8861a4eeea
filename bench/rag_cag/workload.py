"""The mixed workload that `auto` is judged by: the same list of events for each way of answering.

Pure. Events follow one another without pauses; how often each kind comes says what the mode of a
collection should be.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.rag_cag.texts import Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One collection.

    Attributes:
        asked: its share of the events that are questions.
        changed: changes for each question to it; a change replaces one document by another version.
    """

    name: str
    documents: int
    characters: int
    asked: float
    changed: float = 0.0

    def texts(self) -> Texts:
        return Texts(seed=self.name, documents=self.documents, characters=self.characters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happens.

    Attributes:
        kind: `ask`, `change`, or `other`: a request without a collection.
        site: whose; empty for `other`.
        text: the question, the document's new text, or the prompt.
        name: the changed document's file name, of the version that takes its place.
        replaces: the file name of the version before.
    """

    kind: str
    site: str = ""
    text: str = ""
    name: str = ""
    replaces: str = ""


def mixed(scale: float = 1.0) -> tuple[Site, ...]:
    """Static small, static large, changing, rarely asked, too large; `scale` is of documents."""

    def documents(count: int) -> int:
        return max(2, round(count * scale))

    return (
        Site(name="static small", documents=documents(8), characters=1000, asked=0.28),
        Site(name="static large", documents=documents(40), characters=1250, asked=0.36),
        Site(name="changing", documents=documents(20), characters=1250, asked=0.12, changed=0.6),
        Site(name="rarely asked", documents=documents(40), characters=1250, asked=0.005),
        Site(name="too large", documents=documents(100), characters=1250, asked=0.235),
    )


def events(
    sites: Sequence[Site], *, questions: int, seed: int, others: float = 0.3, other_words: int = 250
) -> list[Event]:
    """What happens, in order: `questions` questions, changes and others' requests among them."""
    source = random.Random(f"{seed} events")
    versions: dict[tuple[str, int], int] = {}
    made: list[Event] = []
    for number in range(questions):
        (site,) = source.choices(sites, [each.asked for each in sites])
        if source.random() < site.changed:
            made.append(_change(site, source.randrange(site.documents), versions))
        # Some documents are asked for more than others (Zipf).
        weights = [1 / (rank + 1) for rank in range(site.documents)]
        (about,) = source.choices(range(site.documents), weights)
        text = site.texts().question(number, about)
        made.append(Event(kind="ask", site=site.name, text=text))
        if source.random() < others:
            words = [f"{source.randrange(10**6)}" for _ in range(other_words // 2)]
            made.append(Event(kind="other", text=" ".join(words)))
    return made


def _change(site: Site, document: int, versions: dict[tuple[str, int], int]) -> Event:
    before = versions.get((site.name, document), 0)
    versions[site.name, document] = before + 1
    return Event(
        kind="change",
        site=site.name,
        text=site.texts().document(document, before + 1),
        name=file_name(document, before + 1),
        replaces=file_name(document, before),
    )


def file_name(document: int, version: int) -> str:
    """Of one version of a document; the first ones are named as `Texts.all` names them."""
    return f"{document:03}.txt" if version == 0 else f"{document:03}-{version}.txt"


def counts(happened: Sequence[Event]) -> Mapping[str, int]:
    """Events by kind."""
    return {kind: sum(e.kind == kind for e in happened) for kind in ("ask", "change", "other")}
