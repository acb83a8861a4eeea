"""Where the documents of a variable lie in the text of a segment that prints them.

Jinja hands out a segment's text in chunks, and a value that is printed as it is comes out as the
very object that went in: so a document is recognised without searching for its text. One that a
filter changed is searched for.
"""

from collections.abc import Iterable, Sequence

from prompts.segments import DocumentPlace, PromptDocument


def document_places(
    chunks: Iterable[str], documents: Sequence[PromptDocument]
) -> tuple[DocumentPlace, ...]:
    """The places of the documents in the joined chunks, in their order in the text.

    A place begins with the document's name where the name stands before the text, and ends with
    the text. Documents without text, and those that are not found, have none.
    """
    texts = {id(document.text): document.name for document in documents if document.text}
    # Passages of one document share its name, and two documents may share a text.
    pairs = {(id(document.name), id(document.text)) for document in documents}
    names = {id(document.name) for document in documents if document.name}
    found: list[DocumentPlace] = []
    position = 0
    named: tuple[str, int] | None = None
    for chunk in chunks:
        start = position
        position += len(chunk)
        if named is None and id(chunk) in names:
            named = (chunk, start)
        elif (name := texts.get(id(chunk))) is not None:
            if named is not None and (id(named[0]), id(chunk)) in pairs:
                name, start = named
            elif not found:
                names.clear()  # they come behind the texts, or not at all
            found.append(DocumentPlace(name=name, start=start, stop=position))
            named = None
        elif id(chunk) in names:
            named = (chunk, start)
    return tuple(found)


def searched_places(text: str, documents: Sequence[PromptDocument]) -> tuple[DocumentPlace, ...]:
    """The places of documents whose texts a template trimmed: searched for, one after the other."""
    found: list[DocumentPlace] = []
    position = 0
    for document in documents:
        words = document.text.strip()
        start = text.find(words, position) if words else -1
        if start >= 0:
            position = start + len(words)
            found.append(DocumentPlace(name=document.name, start=start, stop=position))
    return tuple(found)
