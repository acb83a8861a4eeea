"""`/foreword/collections` and `foreword warm` over HTTP, and what reports see of it all."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import openai
import pytest
from click.testing import CliRunner

from app.cli import main
from bench.engine_sim import SimulatorThread
from tests.app.corpora.conftest import corpus_settings, long_text, simulator_config
from tests.gateways import running_gateway, wait_until_ready

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = simulator_config(tokenizer_folder, context_tokens=6000, labels=("template", "tenant"))
    with SimulatorThread(config) as simulator:
        settings = corpus_settings(tmp_path_factory.mktemp("home"), simulator)
        with running_gateway(settings) as made:
            wait_until_ready(made)
            yield made


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def sdk(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def collection(sdk: openai.OpenAI, name: str, text: str) -> str:
    file = sdk.files.create(file=(f"{name}.txt", text.encode()), purpose="assistants")
    store = sdk.vector_stores.create(name=name)
    sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
    return store.id


def test_a_name_may_hold_slashes_and_be_like_a_route(
    sdk: openai.OpenAI, http: httpx.Client
) -> None:
    for name in ("a/b", "a/warm"):
        store = collection(sdk, name, "The ferry is blue.")
        found = http.get(f"/foreword/collections/{quote(name, safe='')}").raise_for_status()
        assert found.json()["id"] == store
        begun = http.post(f"/foreword/collections/{quote(name, safe='')}/warm")
        assert begun.status_code == 202, begun.text
        assert begun.json()["id"] == store


def test_an_empty_collection_is_not_warmed(sdk: openai.OpenAI, http: httpx.Client) -> None:
    sdk.vector_stores.create(name="bare")
    refused = http.post("/foreword/collections/bare/warm")
    assert refused.status_code == 400
    assert "'bare' holds no document yet; add one with" in refused.json()["error"]["message"]


def warmed(http: httpx.Client, name: str) -> dict[str, Any]:
    begun = http.post(f"/foreword/collections/{name}/warm")
    assert begun.status_code == 202, begun.text
    deadline = time.monotonic() + 60
    while True:
        found = http.get(f"/foreword/collections/{name}").json()
        if not found["corpus"]["wanted"]:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def asked(sdk: openai.OpenAI, name: str, question: str, **more: object) -> dict[str, Any]:
    options = {"collection": name, "mode": "cag", **more}
    answer = sdk.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": question}],
        max_tokens=4,
        extra_body={"foreword": options},
    )
    block: dict[str, Any] = answer.model_extra["foreword"]  # type: ignore[index]
    return block


def test_users_re_use_all_that_was_warmed(http: httpx.Client, sdk: openai.OpenAI) -> None:
    collection(sdk, "ferry", long_text("The ferry leaves at nine", 100))
    before = http.get("/foreword/report", params={"format": "json"}).json()
    found = warmed(http, "ferry")
    tokens = found["corpus"]["tokens"]
    assert (found["corpus"]["state"], found["corpus"]["resident"]) == ("resident", True)
    after = http.get("/foreword/report", params={"format": "json"}).json()
    same = ("schema_version", "summary", "groups", "requests")
    assert [before.get(k) for k in same] == [after.get(k) for k in same], "no request was made"
    for question in ("When does it leave?", "Which ferry?"):
        block = asked(sdk, "ferry", question)
        assert block["cached_tokens"] >= tokens, block
        assert block["verdict"] == "hit", block
        assert block["ideal_tokens"] >= tokens


def test_a_list_tells_what_is_known(http: httpx.Client, sdk: openai.OpenAI) -> None:
    collection(sdk, "unused", "A short note.")
    data = {c["name"]: c for c in http.get("/foreword/collections").json()["data"]}
    assert data["unused"]["object"] == "foreword.collection"
    assert data["unused"]["corpus"] is None or data["unused"]["corpus"]["state"] == "cold"
    one = http.get("/foreword/collections/unused").json()
    assert one["corpus"]["tokens"] > 0
    assert one["corpus"]["state"] == "cold"


def test_one_that_is_too_large_is_refused(http: httpx.Client, sdk: openai.OpenAI) -> None:
    collection(sdk, "large", long_text("The ferry leaves at nine", 1000))
    refused = http.post("/foreword/collections/large/warm")
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "6,000" in error["message"]
    told = http.get("/foreword/collections/large").json()["corpus"]
    assert told["state"] == "too_large"
    assert f"{told['tokens']:,}" in told["problem"]
    with pytest.raises(openai.BadRequestError, match="6,000"):
        asked(sdk, "large", "When?")


def test_an_unknown_collection_is_a_404(http: httpx.Client) -> None:
    for response in (
        http.get("/foreword/collections/nothing"),
        http.post("/foreword/collections/nothing/warm"),
    ):
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "collection_not_found"


def test_metrics_and_readiness_tell_of_corpora(http: httpx.Client, sdk: openai.OpenAI) -> None:
    collection(sdk, "measured", long_text("A lamp was lit", 50))
    warmed(http, "measured")
    lines = http.get("/metrics").text.splitlines()
    levels = {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines if "foreword_corp" in line)
        if not name.startswith("#")
    }
    assert levels["foreword_corpora_resident"] >= 1
    assert levels["foreword_corpus_warmings"] >= 1
    assert levels["foreword_corpus_warm_seconds"] > 0
    assert http.get("/readyz").json()["corpora"]["resident"] >= 1


def test_the_command_warms_and_says_so(url: str, sdk: openai.OpenAI) -> None:
    collection(sdk, "from shell", long_text("A boat", 80))
    done = CliRunner().invoke(main, ["warm", "from shell", "--url", url])
    assert done.exit_code == 0, done.output
    # The gateway of this test logs to the same stream.
    assert done.stdout.splitlines()[-1].startswith("from shell is resident: ")
    again = CliRunner().invoke(main, ["warm", "from shell", "--url", url, "--format", "json"])
    assert json.loads(again.stdout.splitlines()[-1])["corpus"]["resident"] is True


def test_the_command_says_why_it_can_not(url: str) -> None:
    done = CliRunner().invoke(main, ["warm", "nothing", "--url", url])
    assert done.exit_code == 2
    assert "nothing" in done.stderr
