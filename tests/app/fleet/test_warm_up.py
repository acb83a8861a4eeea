"""What a replica computes before its first request."""

from pathlib import Path

import anyio.lowlevel
import pytest

from app.engine import EngineClient
from app.fleet.openings import Openings
from app.fleet.warm_up import warm_up
from app.prepared import Prepared
from app.probes import ask
from app.upstream import Timeouts, Upstream
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from prompts import (
    PromptTokenizer,
    load_templates,
    load_tokenizer,
    render,
    shipped_templates,
)


def prepared(tokenizer: PromptTokenizer, *, salt: str, question: str = "When?") -> Prepared:
    template = next(t for t in load_templates(shipped_templates()) if t.name == "docqa")
    rendered = render(template, {"documents": (), "question": question})
    prompt = tokenizer.tokenize(rendered)
    return Prepared(
        request_id="r",
        tenant="local",
        salt=salt,
        model="tiny",
        template=template.reference,
        body={},
        labels={},
        rendered=rendered,
        prompt=prompt,
    )


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path) -> PromptTokenizer:
    return load_tokenizer(tokenizer_folder)


def test_only_the_operators_own_text_is_kept(tokenizer: PromptTokenizer) -> None:
    openings = Openings()
    asked = prepared(tokenizer, salt="a", question="A secret question?")
    openings.answered(asked)
    [opening] = openings.latest()
    assert asked.prompt is not None
    assert 0 < len(opening.token_ids) == asked.scaffold_tokens < len(asked.prompt.token_ids)
    assert "secret" not in tokenizer.decode(opening.token_ids)


def test_the_latest_few_are_kept_each_once(tokenizer: PromptTokenizer) -> None:
    openings = Openings()
    for number in (*range(12), 5):
        openings.answered(prepared(tokenizer, salt=f"salt-{number}"))
    salts = [opening.salt for opening in openings.latest()]
    assert salts == [f"salt-{n}" for n in (5, 11, 10, 9, 8, 7, 6, 4)]
    openings.forget_salt("salt-5")
    assert "salt-5" not in {opening.salt for opening in openings.latest()}


@pytest.mark.anyio
async def test_an_opening_is_there_before_the_first_request(
    tokenizer: PromptTokenizer, tokenizer_folder: Path
) -> None:
    openings, asked = Openings(), prepared(tokenizer, salt="a")
    openings.answered(asked)
    assert asked.prompt is not None
    config = SimulatorConfig(
        model_path=tokenizer_folder, page_size=4, clock=ClockConfig(speedup=20)
    )
    with SimulatorThread(config) as simulator:
        timeouts = Timeouts(connect_s=5, first_byte_s=10, between_bytes_s=10)
        client = EngineClient(Upstream(simulator.url, timeouts=timeouts, max_connections=2))
        await warm_up(client, openings)
        answer = await ask(client, asked.prompt.token_ids, salt="a")
        assert answer.cached_tokens is not None
        assert answer.cached_tokens >= asked.scaffold_tokens // 4 * 4 > 0
        client.close()
        await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_an_engine_that_fails_it_is_no_error(tokenizer: PromptTokenizer) -> None:
    openings = Openings()
    openings.answered(prepared(tokenizer, salt="a"))
    timeouts = Timeouts(connect_s=1, first_byte_s=1, between_bytes_s=1)
    client = EngineClient(Upstream("http://127.0.0.1:9", timeouts=timeouts, max_connections=1))
    await warm_up(client, openings)
