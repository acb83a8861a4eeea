"""The commands of the pages run, page by page, before a simulated engine.

What the simulated engine answers has no meaning, so only commands that show no answers have their
output compared.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.engine_sim import SimulatorThread
from tests.docs.blocks import PAGES, RUNNABLE, blocks, named
from tests.docs.world import FOLDERS, Gateway, Page, started
from tests.simulators import usual_config
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_tokenizer(folder, chat_template=CHATML_TOOLS)
    shutil.copy(FOLDERS / "home/models/Qwen3-14B/config.json", folder)
    return folder


@pytest.fixture(scope="module")
def engine_sim(model: Path) -> Iterator[SimulatorThread]:
    with SimulatorThread(usual_config(model, speedup=50)) as running:
        yield running


@pytest.fixture(scope="module")
def shared(
    engine_sim: SimulatorThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    with started(engine_sim, tmp_path_factory.mktemp("home")) as gateway:
        yield gateway


def _runs(page: Path) -> bool:
    return page.is_file() and any(b.run is not None for b in blocks(page) if b.language in RUNNABLE)


@pytest.mark.parametrize("page", [page for page in PAGES if _runs(page)], ids=named)
def test_the_commands_of_a_page_run(
    page: Path, shared: Gateway, engine_sim: SimulatorThread, model: Path, tmp_path: Path
) -> None:
    with Page(shared=shared, simulator=engine_sim, model=model, folder=tmp_path) as running:
        for block in blocks(page):
            if block.language in RUNNABLE and (run := block.run) is not None:
                running.run(block, run)
