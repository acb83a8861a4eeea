"""Citations: what the answer names, else what it shares its facts with."""

from dataclasses import dataclass

from app.citations import cite


@dataclass(frozen=True)
class Part:
    document: str
    text: str
    page: int | None = None
    heading: str | None = None


PRICES = Part("prices.md", "Adults pay 12.50 euros. Children pay half.", page=2, heading="Fares")
HOURS = Part("hours.txt", "The lighthouse opens at ten in the morning.")


def test_the_passage_that_shares_the_facts_is_cited_with_its_sentence() -> None:
    found = cite("Adults pay 12.50 euros each.", [HOURS, PRICES])
    assert [c["document"] for c in found] == ["prices.md"]
    assert found[0]["found_by"] == "overlap"
    assert found[0]["text"] == "Adults pay 12.50 euros."
    assert (found[0]["page"], found[0]["heading"]) == (2, "Fares")


def test_a_document_that_the_answer_names_comes_first() -> None:
    found = cite("Adults pay 12.50 euros [hours.txt].", [PRICES, HOURS])
    assert [(c["document"], c["found_by"]) for c in found] == [
        ("hours.txt", "named"),
        ("prices.md", "overlap"),
    ]


def test_an_answer_that_rests_on_nothing_has_no_citation() -> None:
    assert cite("Paris is the capital of France.", [PRICES, HOURS]) == []
    assert cite("", [PRICES]) == []
    assert cite("Yes.", [PRICES]) == []
    assert cite("Adults pay 12.50.", []) == []


def test_a_document_is_cited_once_by_its_best_passage() -> None:
    worse = Part("prices.md", "Adults pay more in summer.")
    found = cite("Adults pay 12.50 euros.", [worse, PRICES, worse])
    assert len(found) == 1
    assert found[0]["page"] == 2
