"""Whether prompts rendered here are, id for id, those that the engine would render itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from app.engine import EngineClient
from app.errors import EngineResponseError
from app.messages import message_object
from prompts import Message, PromptTokenizer, Tool, ToolCall, canonical_tools
from prompts.errors import ChatTemplateError

# What chat templates and tokenizers trip over: bare and repeated white space, line ends, other
# scripts, combining marks, emoji, digits, code, an empty line at either end.
_TEXTS = (
    "What does it cost?",
    "  two  spaces\tand a tab\n\n\nthree lines \n",
    "Größe, naïve, 東京, Ελλάδα, e\u0301, 👩🏽‍🚀",
    "for i in range(1234567):\n    print(f'{i:>8}')\n",
)
_TOOLS = canonical_tools(
    [
        {
            "type": "function",
            "function": {
                "name": "price",
                "description": 'Says what a ticket costs. "Größe" counts.',
                "parameters": {
                    "type": "object",
                    "properties": {"who": {"type": "string", "enum": ["child", "adult"]}},
                    "required": ["who"],
                },
            },
        },
        {"type": "function", "function": {"name": "now"}},
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Whether token ids made here equal the engine's own; `problem` says why not.

    `tools` tells the same of conversations with tools, calls and results.
    """

    ok: bool
    problem: str | None = None
    tools: bool = False


async def check_parity(client: EngineClient, tokenizer: PromptTokenizer) -> Parity:
    """Compare both renderings of conversations that are known to be hard.

    Raises:
        ChatTemplateError: the chat template can't be rendered here at all.
        EngineError: the engine did not answer.
    """
    for messages in parity_conversations():
        problem = await _difference(client, tokenizer, messages, ())
        if problem is not None:
            return Parity(ok=False, problem=problem)
    try:
        problem = await _difference(client, tokenizer, tool_conversation(), _TOOLS)
    except (ChatTemplateError, EngineResponseError) as error:
        problem = str(error)
    return Parity(ok=True, tools=problem is None, problem=problem and f"with tools, {problem}")


def parity_conversations() -> list[list[Message]]:
    """Conversations of text alone."""
    conversations = [
        [Message(role="system", content="You are brief."), Message(role="user", content=text)]
        for text in _TEXTS
    ]
    longest = [Message(role="system", content="Answer from the documents.")]
    for text in _TEXTS:
        longest += [Message(role="user", content=text), Message(role="assistant", content=text)]
    return [*conversations, [*longest, Message(role="user", content="And now?")]]


def tool_conversation() -> list[Message]:
    """A call, its result, the answer, another question."""
    call = ToolCall(id="call00001", name="price", arguments='{"who":"child", "n": 1.50}')
    return [
        Message(role="system", content="Use the tools."),
        Message(role="user", content="What does a child pay?"),
        Message(role="assistant", content="", tool_calls=(call,)),
        Message(role="tool", content='{"price": 6.250}', tool_call_id=call.id, name=call.name),
        Message(role="assistant", content="6.25."),
        Message(role="user", content="And an adult?"),
    ]


async def _difference(
    client: EngineClient,
    tokenizer: PromptTokenizer,
    messages: Sequence[Message],
    tools: tuple[Tool, ...],
) -> str | None:
    ours = list(tokenizer.encode_messages(messages, tools))
    objects = [message_object(message) for message in messages]
    theirs = await client.tokenize(objects, [orjson.loads(tool.json) for tool in tools])
    if ours == theirs:
        return None
    pairs = zip(ours, theirs, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
    return f"token {same} of {len(theirs)} differs from the engine's own rendering"
