"""On the real engine, through the gateway: a chat template that strips earlier reasoning. What that
costs is told with each answer and in the ledger as its own, and all else is re-used."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from app.stack.settings import EngineOptions, StackSettings
from app.stack.stack import start_stack
from tests.app.stored.test_real_turns import counted, written
from tests.chat_template_models import MODELS, STRIPS_REASONING, swapped
from tests.conftest import RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_packages import RealTokenizers

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

PAGE_TOKENS = 16
TURNS = 12
# The tiny model says senseless things: so it thinks, and then answers, in these shapes.
THOUGHT = "<think>\nSo.\n</think>\n\n"
GRAMMAR = f'root ::= {json.dumps(THOUGHT)} [A-Z] [a-z] [a-z] " " [a-z] [a-z] [a-z] "."'


@dataclass(frozen=True, slots=True)
class Thinking:
    """A gateway before an engine whose model thinks."""

    url: str
    engine: RealEngine
    client: openai.OpenAI


@pytest.fixture(scope="module")
def thinking(
    engine_cache: Path,
    tiny_model: Path,
    real_tokenizers: RealTokenizers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Thinking]:
    home, model = tmp_path_factory.mktemp("thinking"), MODELS[STRIPS_REASONING]
    source = (real_tokenizers.templates() / f"{model.file}.jinja").read_text("utf-8")
    folder = swapped(tiny_model, home / "model", source, stop=model.stop)
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        if (tiny_model / name).is_file():
            shutil.copyfile(tiny_model / name, folder / name)
    settings = StackSettings(
        home=home / "stack",
        cache=engine_cache,
        base_env=dict(os.environ),
        model=str(folder),
        engine=EngineOptions(pool_tokens=6_000),
        tiers=None,
        gateway=False,
        cpu=True,
    )
    with start_stack(settings, say=print) as stack:
        engine = RealEngine(url=stack.engine_url, model_path=folder, stack=stack)
        served = gateway_settings(home / "gateway", engine.url, tokenizer=folder)
        with running_gateway(served) as url:
            wait_until_ready(url)
            with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
                yield Thinking(url, engine, client)


def test_what_the_template_strips_is_told_as_inherent_and_the_rest_re_used(
    thinking: Thinking,
) -> None:
    messages: list[Any] = [{"role": "system", "content": "You tell when ferries leave."}]
    held = ideal = cached = by_ledger = 0
    losses: list[dict[str, Any]] = []
    counted_before = counted(thinking.engine, "cached_tokens_total")
    for number in range(TURNS):
        messages.append({"role": "user", "content": f"And when does ferry {number} leave?"})
        answer: Any = thinking.client.chat.completions.create(
            model="default",
            messages=messages,
            max_tokens=120,
            temperature=0,
            extra_body={"ebnf": GRAMMAR, "foreword": {}},
        )
        said = answer.choices[0].message.content
        assert said.startswith(THOUGHT)
        messages.append({"role": "assistant", "content": said})
        stays, lost = held - 1, answer.foreword.get("inherent")
        if lost is not None:
            assert lost["of"] == held
            losses.append(lost)
            stays = lost["token"]
        ideal += max(stays, 0) // PAGE_TOKENS * PAGE_TOKENS
        cached += answer.foreword["cached_tokens"]
        row = written(thinking.url, answer.id)
        by_ledger += row["cached_tokens"]
        assert ("inherent" in (row["notes"] or "")) is (lost is not None)
        held = answer.usage.total_tokens
    assert cached >= 0.99 * ideal > 0
    assert len(losses) == TURNS - 1
    assert all("reasoning" in loss["cause"] for loss in losses)
    by_engine = counted(thinking.engine, "cached_tokens_total") - counted_before
    assert cached == by_ledger <= by_engine
