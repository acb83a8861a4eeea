"""Which documents form a hybrid's core."""

from hypothesis import given
from hypothesis import strategies as st

from app.modes.core import CoreDocument, choose_core


def document(
    number: int, *, tokens: int = 100, found: float = 1.0, age: float = 1e6
) -> CoreDocument:
    return CoreDocument(
        id=f"d{number}", position=number, tokens=tokens, found=found, unchanged_s=age
    )


def test_what_is_found_most_for_its_tokens_fills_the_budget() -> None:
    documents = [document(0, found=1), document(1, found=50), document(2, tokens=400, found=60)]
    core = choose_core(documents, budget_tokens=450)
    assert core.ids == ("d0", "d1")
    assert core.covers == 51 / 111


def test_fresh_documents_stay_out() -> None:
    documents = [document(0, age=10), document(1)]
    assert choose_core(documents, budget_tokens=1000).ids == ("d1",)


def test_nothing_found_or_no_budget_is_no_core() -> None:
    assert choose_core([document(0, found=0)], budget_tokens=1000).ids == ()
    assert choose_core([document(0)], budget_tokens=0).ids == ()


def test_a_core_grows_at_its_end() -> None:
    first = choose_core([document(0, found=9), document(1, found=0)], budget_tokens=1000)
    later = choose_core(
        [document(0, found=9), document(1, found=3)], budget_tokens=1000, current=first.ids
    )
    assert later.ids == ("d0", "d1")


def test_a_lost_document_makes_it_anew() -> None:
    core = choose_core([document(3), document(1)], budget_tokens=1000, current=("d9", "d3"))
    assert core.ids == ("d1", "d3")


def test_it_is_made_anew_only_for_a_real_gain() -> None:
    old = [document(0, found=10), document(1, found=11)]
    assert choose_core(old, budget_tokens=100, current=("d0",)).ids == ("d0",)
    much = [document(0, found=10), document(1, found=100)]
    assert choose_core(much, budget_tokens=100, current=("d0",)).ids == ("d1",)


@given(
    st.lists(
        st.builds(
            CoreDocument,
            id=st.uuids().map(str),
            position=st.integers(0, 50),
            tokens=st.integers(1, 500),
            found=st.floats(0, 100),
            unchanged_s=st.floats(0, 1e5),
        ),
        max_size=20,
    ),
    st.integers(0, 2000),
)
def test_a_core_keeps_its_budget_and_its_beginning(
    documents: list[CoreDocument], budget: int
) -> None:
    core = choose_core(documents, budget_tokens=budget)
    assert core.tokens <= budget
    assert len(set(core.ids)) == len(core.ids)
    assert 0 <= core.covers <= 1 + 1e-9
    again = choose_core(documents, budget_tokens=budget, current=core.ids)
    assert again.ids[: len(core.ids)] == core.ids
