"""What the event loop itself computes for a question about a large collection: next to nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.callers import LOCAL_TENANT
from app.pipeline import begin, complete, open_account
from app.schemas import ChatCompletionRequest
from bench.engine_sim import SimulatorThread
from prompts.token_cache import TokenCache
from tests.app.corpora.conftest import Rig, corpus_settings, long_text, rig, simulator_config

pytestmark = pytest.mark.anyio

DOCUMENT = long_text("The ferry leaves at nine & the tower", 5000)
# A tenth of a second; on a machine whose cores are shared, more.
MOST_S = 0.5


@contextmanager
def little_computed() -> Iterator[None]:
    """By this thread; encoding the document takes it about a second."""
    began = time.thread_time()
    yield
    took = time.thread_time() - began
    assert took < MOST_S, f"the event loop computed for {took:.2f} s"


async def said(it: Rig, messages: list[dict[str, str]]) -> Any:
    """The answer's `foreword` block; the messages gain the answer."""
    body = {
        "model": "default",
        "messages": messages,
        "max_tokens": 4,
        "foreword": {"collection": "ferry", "mode": "cag"},
    }
    account = open_account(it.services, tenant=LOCAL_TENANT)
    await begin(it.services, ChatCompletionRequest.model_validate(body), account)
    answer = await complete(it.services, account)
    messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
    return answer["foreword"]


async def test_a_large_collection_is_made_asked_and_followed_beside_the_loop(
    tokenizer_folder: Path, home: Path
) -> None:
    config = simulator_config(tokenizer_folder, capacity_tokens=500_000, context_tokens=200_000)
    with SimulatorThread(config) as simulator:
        async with rig(corpus_settings(home, simulator), simulator) as it:
            collection = it.collection("ferry", DOCUMENT)
            with little_computed():
                prefix = await it.services.corpora.prefix(collection)
            assert prefix.tokens is not None
            assert prefix.tokens > 50_000
            messages = [{"role": "user", "content": "When?"}]
            with little_computed():
                await said(it, messages)
            messages.append({"role": "user", "content": "And back?"})
            with little_computed():
                block = await said(it, messages)
            assert block["cached_tokens"] >= prefix.tokens
            tokenizer = it.services.fleet.view().tokenizer
            assert tokenizer is not None
            tokenizer.cache = TokenCache(tokenizer.encoder)  # forgotten for others meanwhile
            with little_computed():
                await said(it, [{"role": "user", "content": "Which tower?"}])
