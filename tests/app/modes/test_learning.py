"""What is learned of a collection stays small, however many documents it has."""

from app.modes.learning import MOST_DOCUMENTS, Answered, CollectionLearning
from app.schemas import Mode


def test_finds_of_many_documents_are_bounded_and_the_often_found_stay() -> None:
    learning = CollectionLearning()
    for number in range(1000):
        found = {f"{number}-{n}": 10 for n in range(8)} | {"often": 10}
        learning.learn(Answered(mode=Mode.RAG, found=found), at=float(number))
    assert len(learning.found) == MOST_DOCUMENTS
    assert max(learning.found, key=lambda document: learning.found[document]) == "often"
