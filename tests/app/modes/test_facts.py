"""What a decision needs to know of a collection, where it can't be made out."""

from pathlib import Path

import pytest

from app.modes.learning import CollectionLearning
from bench.engine_sim import SimulatorThread
from tests.app.corpora.conftest import corpus_settings, rig, simulator_config

pytestmark = pytest.mark.anyio

BROKEN = """name: docqa
version: 9
variables:
  documents: {type: documents, volatility: collection}
  question: {type: text, volatility: turn}
segments:
  - id: documents
    role: system
    volatility: collection
    text: "{% for document in documents %}{{ document.author }}{% endfor %}"
  - {id: question, role: user, volatility: turn, text: "{{ question }}"}
"""


async def test_documents_that_a_template_cant_show_are_a_problem_not_a_fault(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "docqa.yaml").write_text(BROKEN)
    with SimulatorThread(simulator_config(tokenizer_folder)) as simulator:
        settings = corpus_settings(tmp_path / "home", simulator)
        own = settings.model_copy(update={"templates": tmp_path / "templates"})
        async with rig(own, simulator) as it:
            collection = it.collection("ferry", "The ferry leaves at nine.")
            facts, modes = it.services.modes.facts, it.services.modes
            learning = CollectionLearning()
            await facts.count(collection, learning)
            deployment = facts.deployment(collection, learning, modes.engine)
            assert "author" in (deployment.corpus_problem or "")
