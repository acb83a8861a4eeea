"""On the real engine, under five real chat templates: conversations and tool loops grow by what is
new alone, output tokens included.

One engine serves all of them: it is sent ids, and never sees a template.
"""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from prompts import (
    Message,
    PromptTokenizer,
    ToolCall,
    Transcript,
    canonical_tools,
    load_tokenizer,
)
from prompts.tool_calls import call_shape
from tests.chat_template_models import MODELS, STRIPS_REASONING, swapped
from tests.conftest import RealEngine
from tests.tokenizer_packages import RealTokenizers

pytestmark = pytest.mark.engine

PAGE_TOKENS = 16
TURNS, STEPS = 20, 12
SYSTEM = Message(role="system", content="You tell when ferries leave, and what they cost.")
THOUGHT = "<think>\nSo.\n</think>\n\n"
ARGUMENTS, RESULT = '{"port":"Arvik"}', '{"price":  12.50}\n'
TOOLS = canonical_tools(
    [{"type": "function", "function": {"name": "price", "parameters": {"type": "object"}}}]
)


@pytest.fixture(params=sorted(MODELS))
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tokenizer(
    model: str, engine: RealEngine, real_tokenizers: RealTokenizers, tmp_path: Path
) -> PromptTokenizer:
    source = (real_tokenizers.templates() / f"{MODELS[model].file}.jinja").read_text("utf-8")
    folder = swapped(engine.model_path, tmp_path / "model", source, stop=MODELS[model].stop)
    return load_tokenizer(folder)


class Asked:
    """Prompts of one conversation, and what of them was re-used."""

    def __init__(self, engine: RealEngine) -> None:
        self._url, self._salt, self._held = engine.url, engine.salt(), 0
        self.ideal = self.cached = self.losses = 0

    def answer(self, talk: Transcript, grammar: str) -> list[int]:
        """The output ids, of a text that the grammar allows.

        All that the engine held could be re-used but for its last token, which was never computed,
        in pages; or up to where the template writes something else.
        """
        stays = self._held - 1
        if talk.inherent is not None:
            assert talk.inherent.of == self._held
            self.losses += 1
            stays = talk.inherent.token
        body: dict[str, Any] = {
            "input_ids": list(talk.token_ids),
            "sampling_params": {
                "max_new_tokens": 160,
                "temperature": 0,
                "ebnf": f"root ::= {grammar}",
            },
            "cache_salt": self._salt,
        }  # fmt: skip
        answer = httpx.post(f"{self._url}/generate", json=body, timeout=120, trust_env=False)
        made = answer.raise_for_status().json()
        if self._held:
            self.ideal += stays // PAGE_TOKENS * PAGE_TOKENS
            self.cached += made["meta_info"]["cached_tokens"]
        output: list[int] = made["output_ids"]
        self._held = len(talk.token_ids) + len(output)
        return output


def quoted(text: str) -> str:
    """A grammar that allows this text alone, in whatever tokens the model likes."""
    return json.dumps(text, ensure_ascii=False)


def test_a_conversation_re_uses_all_that_its_template_lets_it(
    engine: RealEngine, tokenizer: PromptTokenizer, model: str
) -> None:
    strips, asked = model == STRIPS_REASONING, Asked(engine)
    thought = f"{quoted(THOUGHT)} " if strips else ""
    talk = Transcript.start(tokenizer, [SYSTEM, Message(role="user", content="Ferry 0?")])
    for number in range(1, TURNS):
        output = asked.answer(talk, f'{thought}[A-Z] [a-z] [a-z] [a-z] " " [a-z] [a-z] [a-z] "."')
        said = tokenizer.decode([i for i in output if i not in tokenizer.control])
        answer = Message(
            role="assistant",
            content=said.rpartition("</think>\n\n")[2],
            reasoning="So." if strips else None,
        )
        talk = talk.answer(output, answer)
        talk = talk.append(Message(role="user", content=f"And when does ferry {number} leave?"))
    asked.answer(talk, '"Bye."')
    assert asked.cached >= 0.99 * asked.ideal > 0
    assert asked.losses == (TURNS - 1 if strips else 0)


def test_a_tool_loop_re_uses_all_that_it_grows_by(
    engine: RealEngine, tokenizer: PromptTokenizer
) -> None:
    shape, asked = call_shape(tokenizer), Asked(engine)
    assert shape is not None
    written = f"{shape.begin('price')}{ARGUMENTS}{shape.after}"
    talk = Transcript.start(tokenizer, [SYSTEM, Message(role="user", content="Prices?")], TOOLS)
    for number in range(STEPS):
        output = asked.answer(talk, quoted(written))
        call = ToolCall(id=f"call{number:05d}", name="price", arguments=ARGUMENTS)
        talk = talk.answer(output, Message(role="assistant", content="", tool_calls=(call,)))
        talk = talk.append(Message(role="tool", content=RESULT, tool_call_id=call.id))
    asked.answer(talk, '"Bye."')
    assert asked.cached >= 0.99 * asked.ideal > 0
    assert asked.losses == 0
