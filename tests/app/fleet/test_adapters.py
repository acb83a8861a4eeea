"""LoRA adapters: models by the name `NAME:ADAPTER`, whose KV is nobody else's."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.app.fleet.conftest import Site, site


@pytest.fixture(scope="module")
def lone(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("home")
    with site(tokenizer_folder, home, replicas=1, adapters=("pirate", "poet")) as made:
        yield made


def test_adapters_are_listed_behind_the_model(lone: Site) -> None:
    listed = httpx.get(f"{lone.url}/v1/models", trust_env=False).json()["data"]
    assert [each["id"] for each in listed][:4] == ["tiny", "default", "tiny:pirate", "tiny:poet"]


def test_an_adapter_is_named_by_either_name_of_the_model(lone: Site) -> None:
    assert lone.post(model="tiny:pirate").json()["model"] == "tiny:pirate"
    assert lone.post(model="default:pirate").json()["model"] == "tiny:pirate"


def test_another_adapter_is_not_found_and_those_there_are_named(lone: Site) -> None:
    answer = lone.post(model="tiny:parrot")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert "tiny:poet" in answer.json()["error"]["message"]


def test_an_adapters_kv_is_counted_by_itself(lone: Site) -> None:
    text = "What does an adapter cost, and who computes its KV? " * 8
    lone.ask(text)
    first = lone.ask(text, model="tiny:poet")
    assert (first["cached_tokens"], first["verdict"]) == (0, "isolated")
    again = lone.ask(text, model="tiny:poet")
    assert again["cached_tokens"] == again["ideal_tokens"] > 0
