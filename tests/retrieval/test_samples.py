"""The sample collection: it can be read, is small, and its facts are found."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retrieval import Collections, SentenceTransformerEmbedder
from retrieval.parsing import parse

ROOT = Path(__file__).parents[2]
FERRY = ROOT / "samples" / "ferry"

# What is asked, and the words that the found passages must hold.
QUESTIONS = [
    ("How much does an adult ticket cost?", "| Adult | 9 euros |"),
    ("How long does the crossing take?", "The crossing takes 45 minutes."),
    ("When does the first ship leave Port Ellery in summer?", "From Port Ellery: 7:30"),
    ("What is the telephone number of the harbour office?", "555 0142"),
    ("Who looks after lost property?", "Ines Halloran"),
    ("How many steps does the lighthouse have?", "It has 164 steps."),
    ("Who keeps the lighthouse?", "Oona Marsh"),
    ("Where can I buy bread on the island?", "The Salt Oven is a bakery."),
    ("Where are the life jackets?", "under the seats of the main saloon"),
    ("Who is the captain of the Marigold?", "Ruth Adeyemi"),
    ("Does the ship sail in strong wind?", "stronger than force 8"),
    ("Can I get my money back if I cancel?", "refunded in full"),
]


def test_it_has_one_document_of_each_format() -> None:
    documents = [parse(path.name, path.read_bytes()) for path in sorted(FERRY.iterdir())]
    assert sorted(document.media_type for document in documents) == [
        "application/pdf",
        "text/html",
        "text/markdown",
        "text/plain",
    ]


def test_it_fits_a_small_window(count_tokens: Callable[[str], int]) -> None:
    """This tokenizer has 800 tokens; one for use, with 49,000, makes about half as many."""
    texts = [parse(path.name, path.read_bytes()).text for path in FERRY.iterdir()]
    assert 1_000 < sum(map(count_tokens, texts)) < 4_000


def test_the_pdf_is_what_its_script_makes(tmp_path: Path) -> None:
    script = ROOT / "samples" / "make_safety_pdf.py"
    subprocess.run([sys.executable, script, tmp_path / "safety.pdf"], check=True, timeout=60)
    assert (tmp_path / "safety.pdf").read_bytes() == (FERRY / "safety.pdf").read_bytes()


@pytest.mark.slow
def test_each_question_finds_its_passage(
    open_collections: Callable[..., Collections], minilm: SentenceTransformerEmbedder
) -> None:
    collections = open_collections(embedder=minilm)
    ferry = collections.create("ferry", tenant="t")
    for path in sorted(FERRY.iterdir()):
        file = collections.save_file(path.name, path.read_bytes(), "assistants", tenant="t")
        collections.add_file(ferry.id, file.id, tenant="t")
    missed = [
        question
        for question, fact in QUESTIONS
        if not any(
            fact in scored.chunk.text
            for scored in collections.search(ferry.id, question, 3, tenant="t")
        )
    ]
    assert missed == []
