"""The embedding process: real processes, killed for real."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from retrieval import (
    EmbedderError,
    EmbedderUnavailableError,
    ProcessEmbedder,
    SentenceTransformerEmbedder,
    find_model,
)
from retrieval.embed import Vectors
from retrieval.embed_batches import MAX_TEXTS, EmbedRequest, MicroBatcher
from retrieval.embed_child import EmbedChild
from tests.retrieval.test_embed import EmbedderContract

ROOT = Path(__file__).parents[2]


def wait_until(is_so: Callable[[], bool], *, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture(scope="module")
def process() -> Iterator[ProcessEmbedder]:
    embedder = ProcessEmbedder(find_model("all-minilm-l6-v2"))
    yield embedder
    embedder.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestProcessEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, process: ProcessEmbedder) -> ProcessEmbedder:
        return process

    def test_vectors_are_those_of_the_model_in_this_process(
        self, embedder: ProcessEmbedder, minilm: SentenceTransformerEmbedder
    ) -> None:
        texts = ["The ferry leaves at nine.", "A dog.", "word " * 100]
        np.testing.assert_allclose(
            embedder.embed_passages(texts), minilm.embed_passages(texts), atol=1e-5
        )
        assert embedder.id == minilm.id

    def test_threads_get_their_own_vectors(self, embedder: ProcessEmbedder) -> None:
        texts = [f"number {n} " * (n % 7 + 1) for n in range(24)]
        with ThreadPoolExecutor(8) as pool:
            alone = list(pool.map(embedder.embed_query, texts))
            parts = list(pool.map(embedder.embed_passages, [texts[n::4] for n in range(4)]))
        for n, vector in enumerate(alone):
            np.testing.assert_allclose(parts[n % 4][n // 4], vector[0], atol=1e-5)

    def test_a_query_passes_passages(
        self, embedder: ProcessEmbedder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        embedder.embed_query("warm")
        begun, asked = threading.Event(), threading.Event()
        batches: list[bool] = []
        computed, added = EmbedChild.embed, MicroBatcher.add

        def embed(child: EmbedChild, texts: list[str], *, is_query: bool) -> Vectors:
            batches.append(is_query)
            begun.set()
            assert asked.wait(60)
            return computed(child, texts, is_query=is_query)

        def add(waiting: MicroBatcher, request: EmbedRequest) -> None:
            added(waiting, request)
            if request.is_query:
                asked.set()

        monkeypatch.setattr(EmbedChild, "embed", embed)
        monkeypatch.setattr(MicroBatcher, "add", add)
        passages = threading.Thread(
            target=embedder.embed_passages, args=(["A passage."] * (2 * MAX_TEXTS),)
        )
        passages.start()
        assert begun.wait(60)
        embedder.embed_query("How long is the queue?")
        passages.join()
        assert batches[:2] == [False, True]
        assert not any(batches[2:])
        assert len(batches) > 2, "passages waited meanwhile"

    def test_a_killed_process_is_replaced_and_nobody_notices(
        self, embedder: ProcessEmbedder
    ) -> None:
        embedder.embed_query("warm")
        killed = embedder.process_id
        assert killed is not None
        with ThreadPoolExecutor(2) as pool:
            passages = pool.submit(embedder.embed_passages, ["word " * 200] * 48)
            time.sleep(0.3)
            os.kill(killed, signal.SIGKILL)
            query = pool.submit(embedder.embed_query, "Still there?")
            assert query.result().shape == (1, 384)
            assert passages.result().shape == (48, 384)
        assert embedder.process_id not in (None, killed)
        assert not is_running(killed)

    def test_another_model_is_asked_for_its_dimension_and_length(
        self, process: ProcessEmbedder, tmp_path: Path
    ) -> None:
        folder = tmp_path / "mine"
        shutil.copytree(find_model("all-minilm-l6-v2").folder, folder)
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 128}))
        model = find_model(str(folder))
        assert model.id.startswith("mine@")
        assert model.max_tokens == 126
        assert model.dimension is None
        assert find_model(str(folder)).id == model.id
        embedder = ProcessEmbedder(model)
        try:
            assert embedder.dimension == 384
            text = "The ferry leaves at nine."
            np.testing.assert_allclose(
                embedder.embed_query(text), process.embed_query(text), atol=1e-5
            )
        finally:
            embedder.close()
        (folder / "config_sentence_transformers.json").write_text("{}")
        assert find_model(str(folder)).id != model.id, "another file is another model"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_process_ends_when_its_owner_is_killed_and_torch_stays_out_of_the_owner() -> None:
    script = (
        "import sys, threading\n"
        "from retrieval import ProcessEmbedder, find_model\n"
        "embedder = ProcessEmbedder(find_model('all-minilm-l6-v2'))\n"
        "embedder.embed_query('x')\n"
        "print(embedder.process_id, 'torch' in sys.modules, flush=True)\n"
        "embedder.embed_passages(['word ' * 200] * 500)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as owner:
        assert owner.stdout is not None
        child, has_torch = owner.stdout.readline().split()
        assert has_torch == "False"
        time.sleep(0.5)  # in the middle of a batch
        assert is_running(int(child))
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_running(int(child)))


@pytest.mark.slow
def test_closing_ends_the_process_and_tells_those_who_wait() -> None:
    embedder = ProcessEmbedder(find_model("all-minilm-l6-v2"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(embedder.embed_query, "x")
        wait_until(lambda: embedder.process_id is not None)
        child = embedder.process_id
        assert child is not None
        began = time.monotonic()
        embedder.close()
        assert time.monotonic() - began < 30, "the loading of the model isn't waited for"
        with pytest.raises(EmbedderError, match="closed"):
            waiting.result()
    assert not is_running(child)
    with pytest.raises(EmbedderError, match="closed"):
        embedder.embed_passages(["x"])


@pytest.mark.slow
def test_a_model_is_loaded_before_anybody_asks_if_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nobody_waits = threading.Event()
    loaded = EmbedChild.wait_until_ready

    def held_up(child: EmbedChild) -> None:
        assert nobody_waits.wait(60), "the loading is waited for"
        loaded(child)

    monkeypatch.setattr(EmbedChild, "wait_until_ready", held_up)
    embedder = ProcessEmbedder(find_model("all-minilm-l6-v2"))
    try:
        embedder.warm()
        embedder.warm()
        wait_until(lambda: embedder.process_id is not None)
        nobody_waits.set()
        embedder.embed_query("a question that waits for what is left of it")
        first = embedder.process_id
        embedder.warm()
        embedder.embed_query("another question")
        assert embedder.process_id == first
    finally:
        nobody_waits.set()
        embedder.close()


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(find_model("all-minilm-l6-v2").folder, folder)
    (folder / "model.safetensors").write_bytes(b"no weights")
    model = find_model(str(folder))
    embedder = ProcessEmbedder(model)
    try:
        embedder.warm()  # tells nobody, and the next one who asks starts it again
        with pytest.raises(EmbedderUnavailableError, match="can't be used"):
            embedder.embed_passages(["x"])
    finally:
        embedder.close()


def test_nothing_starts_before_the_first_use() -> None:
    embedder = ProcessEmbedder(find_model("all-minilm-l6-v2"))
    assert embedder.dimension == 384
    assert embedder.count_tokens("The ferry leaves at nine.") == 6
    assert embedder.embed_passages([]).shape == (0, 384)
    assert embedder.process_id is None
    embedder.close()


def test_minilm_reads_254_tokens() -> None:
    assert find_model("all-MiniLM-L6-v2") == find_model("all-minilm-l6-v2")
    assert find_model("all-minilm-l6-v2").max_tokens == 254


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("no-such/model", "neither a folder nor in the Hugging Face cache"),
        ("///", "no modules.json"),
        ("a b*c", "neither a folder nor a model's name"),
    ],
)
def test_a_model_that_is_not_there_is_told(name: str, complaint: str) -> None:
    with pytest.raises(EmbedderError, match=complaint):
        find_model(name)


def test_a_folder_that_does_not_say_how_long_a_text_may_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(EmbedderError, match="don't say how long a text may be"):
        find_model(str(tmp_path))
