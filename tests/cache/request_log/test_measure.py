"""What is counted of prompts with a model's own tokenizer is what the engine would hold."""

import json
from array import array

import pytest

from cache.request_log import LogOptions, diagnose, render_text, to_json
from cache.request_log.measure import PAGE_HASH_BYTES, TokenMeasure
from cache.request_log.table import LogPrompt, TextStore
from prompts import Message, PromptTokenizer
from prompts.shared_length import shared_length
from tests.tokenizer_packages import RealTokenizers

PAGE = 4
WORDS = "The ferry leaves at nine, and comes back at noon.\n"
SYSTEM = Message(role="system", content=WORDS * 40)
TURNS = (
    Message(role="user", content="When does it leave?"),
    Message(role="assistant", content="At nine, as it does every day of the week."),
    Message(role="user", content=f"And back? {WORDS * 30}"),
    Message(role="assistant", content="At noon."),
    Message(role="user", content="Thanks."),
)


@pytest.fixture(scope="module", params=["smollm2", "gemma3", "llama3_1"])
def tokenizer(request: pytest.FixtureRequest, real_tokenizers: RealTokenizers) -> PromptTokenizer:
    return real_tokenizers.load(str(request.param))


def test_tokens_and_shared_tokens_are_those_of_the_whole_prompt(
    tokenizer: PromptTokenizer,
) -> None:
    store = TextStore()
    measure = TokenMeasure(store, tokenizer, page_size=PAGE)
    prompts, ids = [], []
    for stop in (1, 3, 5):
        messages = [SYSTEM, *TURNS[:stop]]
        prompts.append(LogPrompt(0, tuple(store.add_message(message) for message in messages)))
        ids.append(tokenizer.encode_messages(messages))
    for prompt, expected in zip(prompts, ids, strict=True):
        assert measure.chain(prompt).tokens == len(expected)
        assert len(measure.chain(prompt).pages) == len(expected) // PAGE * PAGE_HASH_BYTES
    same = shared_length(array("I", ids[0]), array("I", ids[1]))
    assert measure.shared_tokens(prompts[0], prompts[1]) == same
    shared = measure.chain(prompts[0]).pages, measure.chain(prompts[1]).pages
    assert _pages(*shared) == same // PAGE


def test_the_next_turn_finds_the_answer(tokenizer: PromptTokenizer) -> None:
    """An answer is kept where the next prompt has it: behind what opened it."""
    store = TextStore()
    measure = TokenMeasure(store, tokenizer, page_size=PAGE)
    numbers = tuple(store.add_message(message) for message in (SYSTEM, *TURNS))
    kept = measure.chain_with_answer(LogPrompt(0, numbers[:2]), numbers[2])
    following = measure.chain(LogPrompt(0, numbers[:4]))
    assert kept.tokens > measure.chain(LogPrompt(0, numbers[:2])).tokens + PAGE
    assert _pages(kept.pages, following.pages) >= kept.tokens // PAGE - 1


def _pages(one: bytes, other: bytes) -> int:
    return shared_length(one, other) // PAGE_HASH_BYTES


@pytest.mark.parametrize(("name", "shown"), [("smollm2", False), ("qwen3", True)])
def test_tools_that_a_chat_template_does_not_show_are_told(
    name: str, shown: bool, real_tokenizers: RealTokenizers
) -> None:
    """They are no part of the prompt then."""
    tool = {"type": "function", "function": {"name": "track", "description": WORDS}}
    body = {"messages": [{"role": "user", "content": "Hello"}], "tools": [tool]}
    lines = [json.dumps(line).encode() for line in (body, body, {"prompt": "Hello"})]
    diagnosis = diagnose(lines, LogOptions(tokenizer=real_tokenizers.load(name)))
    assert diagnosis.tools_not_shown == (0 if shown else 2)
    assert to_json(diagnosis)["tools_not_shown"] == diagnosis.tools_not_shown
    sentence = "The chat template shows no tools: 2 requests carry some, counted without them."
    assert (sentence in render_text(diagnosis)) != shown
