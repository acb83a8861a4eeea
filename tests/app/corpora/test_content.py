"""How a corpus changed, and what its address depends on."""

import pytest

from app.corpora.content import Change, CorpusContent, change_between, content_address
from prompts import PromptDocument


def content(*documents: tuple[str, str]) -> CorpusContent:
    """Documents of a name and a text."""
    return CorpusContent(
        revision=1,
        documents=tuple(PromptDocument(name=name, text=text) for name, text in documents),
        document_ids=tuple(f"doc-{text}" for _, text in documents),
        sources=(),
    )


BEFORE = (("a.txt", "one"), ("b.txt", "two"))


@pytest.mark.parametrize(
    ("after", "change"),
    [
        (BEFORE, Change.SAME),
        ((*BEFORE, ("c.txt", "three")), Change.APPENDED),
        ((("a.txt", "one"), ("b.txt", "new")), Change.CHANGED),
        ((("b.txt", "two"), ("a.txt", "one")), Change.CHANGED),
        ((("a.txt", "one"),), Change.REMOVED),
        ((("a.txt", "one"), ("renamed.txt", "two")), Change.REMOVED),
        ((), Change.REMOVED),
    ],
)
def test_a_change_is_told(after: tuple[tuple[str, str], ...], change: Change) -> None:
    assert change_between(content(*BEFORE), content(*after)) is change


def test_one_of_two_documents_of_a_name_is_removed() -> None:
    before = content(("a.txt", "one"), ("a.txt", "two"))
    assert change_between(before, content(("a.txt", "two"))) is Change.REMOVED


def test_equal_content_has_one_address_and_everything_else_has_another() -> None:
    made_by = ("docqa@2", "fingerprint", "model", "tokenizer", "64")
    address = content_address(content(*BEFORE), made_by)
    assert content_address(content(*BEFORE), made_by) == address
    others = [
        content_address(content(*reversed(BEFORE)), made_by),
        content_address(content(("a.txto", "ne"), ("b.txt", "two")), made_by),
        content_address(content(*BEFORE, ("c.txt", "")), made_by),
        *(
            content_address(content(*BEFORE), (*made_by[:i], "x", *made_by[i + 1 :]))
            for i in range(len(made_by))
        ),
    ]
    assert len({address, *others}) == len(others) + 1
