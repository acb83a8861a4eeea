"""Citations: what the answer names, else what it shares its facts with."""

from dataclasses import dataclass

from app.citations import cite, telling_words


@dataclass(frozen=True)
class Part:
    document: str
    text: str
    page: int | None = None
    heading: str | None = None
    file_id: str = ""
    chunk_id: str = ""
    start: int = 0
    end: int = 0
    score: float | None = None

    @property
    def words(self) -> frozenset[str]:
        return telling_words(self.text)


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


def test_a_citation_has_its_place_in_document_and_answer() -> None:
    part = Part("prices.md", PRICES.text, file_id="file-1", chunk_id="chunk-7", start=90, end=131)
    answer = "It opens at ten. Adults pay 12.50 euros. Ask inside."
    [found] = cite(answer, [part])
    assert (found["file_id"], found["chunk_id"]) == ("file-1", "chunk-7")
    assert (found["start"], found["end"]) == (90, 131)
    assert answer[: found["index"]].endswith("12.50 euros.")
    [named] = cite("They pay 12.50 [prices.md], all of them.", [part])
    assert named["index"] == len("They pay 12.50 [prices.md]")


def test_a_name_is_recognised_as_the_prompt_shows_it() -> None:
    part = Part('a "b" <c>.md', PRICES.text)
    [found] = cite("Adults pay [a &quot;b&quot; &lt;c&gt;.md].", [part])
    assert (found["document"], found["found_by"]) == ('a "b" <c>.md', "named")


def test_two_files_of_one_name_are_told_apart() -> None:
    one, other = (Part("prices.md", PRICES.text, file_id=f) for f in ("file-1", "file-2"))
    assert [c["file_id"] for c in cite("Adults pay 12.50 euros.", [one, other])] == [
        "file-1",
        "file-2",
    ]


def test_of_equal_passages_the_one_that_was_found_better_is_cited_in_any_order() -> None:
    worse = Part("prices.md", PRICES.text, chunk_id="chunk-1", score=0.4)
    better = Part("prices.md", PRICES.text, chunk_id="chunk-2", score=0.6)
    for passages in ([worse, better], [better, worse]):
        assert [c["chunk_id"] for c in cite("Adults pay 12.50 euros.", passages)] == ["chunk-2"]
