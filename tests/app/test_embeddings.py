"""`/v1/embeddings` and `/v1/models` through the unmodified OpenAI SDK and plain HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from app.settings import RetrievalSettings
from bench.engine_sim import SimulatorThread
from retrieval import HashingEmbedder
from tests.app.openai_objects import exact
from tests.gateways import gateway_settings, running_gateway

TEXTS = ["The ferry leaves at noon.", "Pier 3 is closed in winter."]


@pytest.fixture
def http(gateway: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway, trust_env=False) as made:
        yield made


def test_vectors_are_the_embedders_own_in_both_formats(client: openai.OpenAI) -> None:
    expected = HashingEmbedder().embed_passages(TEXTS)
    for encoding in ("float", "base64"):
        found = client.embeddings.create(
            model="hashing",
            input=TEXTS,
            encoding_format=encoding,  # type: ignore[arg-type]
        )
        assert [each.index for each in found.data] == [0, 1]
        vectors = [_numbers(each.embedding) for each in found.data]
        np.testing.assert_allclose(vectors, expected, rtol=1e-6)
        assert found.model == "hashing"
        assert found.usage.prompt_tokens == found.usage.total_tokens > 0


def _numbers(embedding: Any) -> Any:
    """The SDK hands base64 out as text where it was asked for by name."""
    if isinstance(embedding, str):
        import base64

        return np.frombuffer(base64.b64decode(embedding), dtype="<f4")
    return embedding


def test_one_text_and_the_alias(client: openai.OpenAI) -> None:
    found = exact(client.embeddings.create(model="default", input=TEXTS[0]))
    assert len(found.data) == 1
    assert len(found.data[0].embedding) == 256


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": [1, 2, 3]}, "input"),
        ({"input": [[1], [2]]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": 5}, "input"),
        ({"dimensions": 64}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"input_type": "query"}, "input_type"),
        ({"model": "text-embedding-3-small"}, "model"),
    ],
)
def test_what_cant_be_done_is_refused_by_name(
    http: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    answer = http.post("/v1/embeddings", json={"model": "default", "input": "a"} | fields)
    assert answer.status_code == (404 if param == "model" else 400), answer.text
    assert answer.json()["error"]["param"] == param


def test_the_models_own_dimensions_may_be_asked_for(http: httpx.Client) -> None:
    body = {"model": "default", "input": "a", "dimensions": 256}
    assert http.post("/v1/embeddings", json=body).status_code == 200


def test_all_models_are_listed_and_found(client: openai.OpenAI) -> None:
    listed = [exact(model) for model in client.models.list()]
    assert [model.id for model in listed] == ["tiny", "default", "hashing", "agent:researcher"]
    assert [model.owned_by for model in listed] == [*["foreword"] * 3, "foreword-agents"]
    for model in listed:
        assert client.models.retrieve(model.id) == model
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-4o")
    assert caught.value.code == "model_not_found"


@pytest.mark.slow
def test_a_real_model_refuses_what_it_would_cut_off(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    settings = gateway_settings(tmp_path, simulator.url).model_copy(
        update={"retrieval": RetrievalSettings()}
    )
    with (
        running_gateway(settings) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client,
    ):
        name = "all-minilm-l6-v2"
        found = client.embeddings.create(model=name, input=[*TEXTS, "When does the ship leave?"])
        noon, pier, question = (np.array(each.embedding) for each in found.data)
        assert noon @ question > pier @ question
        assert np.isclose(np.linalg.norm(noon), 1)
        with pytest.raises(openai.BadRequestError) as caught:
            client.embeddings.create(model=name, input=["short", "ferry " * 300])
        assert "input 1 has 300 tokens, and the model reads 254" in caught.value.message
        with pytest.raises(openai.BadRequestError, match="600,000 characters"):
            client.embeddings.create(model=name, input="ferry " * 100_000)
