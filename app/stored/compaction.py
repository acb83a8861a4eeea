"""Long conversations made shorter: seldom, and by much.

Each time the beginning of the prompt changes, all after it is computed anew. So a conversation is
never shortened a little at each turn: it stays as it is until it fills a stated share of the
window; then the `compact` template has all but its end summed up, and the summary stays as it is
until the next time.
"""

from dataclasses import replace
from functools import partial
from itertools import takewhile

import anyio
import orjson

from app.pipeline import begin, complete, open_account
from app.responses.input_items import messages_after
from app.schemas import ChatCompletionRequest, ForewordOptions
from app.services import Services
from app.stored.records import Compaction, Resumption, Said, SaidItem, Summary
from app.stored.turn import SUMMARY_OPENS, Turn

TEMPLATE = "compact"
_MOST_SUMMARY_TOKENS = 1024
_INSTRUCTING = ("system", "developer")
# About what the template asks for its summary with.
_TASK_TOKENS = 96
# Where only the engine can count.
_CHARACTERS_A_TOKEN = 4


def is_due(compaction: Compaction | None, tokens: int | None, window: int) -> bool:
    """Whether the last turn filled its share of the window."""
    return compaction is not None and tokens is not None and tokens >= compaction.at * window


def step_tokens(compaction: Compaction, window: int) -> int:
    """The least that is summed up at a time, and the most that a summary may have.

    So that at least as much again is free after it: what stays and the summary together fill no
    more than three quarters of what makes a compaction due.
    """
    return int(compaction.at * window / 4)


def cut_place(weights: list[tuple[bool, int]], most: int) -> int:
    """How many of the leading items are summed up; 0: none can be.

    What stays begins with a user's message, and has no more than `most` tokens.

    Args:
        weights: for each item whether it is a user's message, and its tokens.
    """
    place, left = 0, most
    for number in range(len(weights) - 1, -1, -1):
        is_users, tokens = weights[number]
        left -= tokens
        if left < 0:
            break
        if is_users:
            place = number
    else:
        return 0
    return place or len(weights)


async def compact_if_due(turn: Turn) -> bool:
    """Sum up the conversation where it is time to; whether it was. The account has the cost.

    Raises:
        EngineError, GatewayError: the summary could not be made; the turn isn't answered then.
    """
    services, conversation = turn.services, turn.conversation
    if conversation is None or conversation.compaction is None:
        return False
    view = services.fleet.view()
    window = view.info.context_tokens
    if not is_due(conversation.compaction, conversation.tokens, window):
        return False
    count = view.tokenizer.count if view.tokenizer else _about
    texts = [_text(item) for item in turn.said.items]
    counting = partial(list[int], map(count, texts))
    counts = await services.aside.done(counting, characters=sum(map(len, texts)))
    weights = [(_is_users(item), n) for item, n in zip(turn.said.items, counts, strict=True)]
    place = cut_place(weights, int(conversation.compaction.keep * window))
    step = step_tokens(conversation.compaction, window)
    if sum(tokens for _, tokens in weights[:place]) < step:
        return False
    room = max(1, window - (conversation.tokens or 0) - _TASK_TOKENS)
    summary_tokens = min(_MOST_SUMMARY_TOKENS, step, room)
    text, cost = await _summed_up(services, turn, turn.said.items[:place], summary_tokens)
    if not text.strip():  # a model that had nothing to say: better long than forgotten
        return False
    through = turn.said.items[place - 1].position
    assert through is not None
    summary = Summary(text=text, through=through)
    compact = partial(services.stored.compact, conversation.id, turn.response_id, summary)
    await anyio.to_thread.run_sync(compact)
    turn.said = Said(items=turn.said.items[place:], summary=summary)
    turn.account.compaction = {"tokens_before": conversation.tokens, **cost}
    return True


async def _summed_up(
    services: Services, turn: Turn, items: list[SaidItem], most_tokens: int
) -> tuple[str, dict[str, int | None]]:
    """The summary, and what it took."""
    said = [(item.item, item.output_ids) for item in items]
    messages, spelled = messages_after(said, ())
    if turn.said.summary is not None:
        text = f"{SUMMARY_OPENS}\n{turn.said.summary.text}"
        messages.insert(0, {"role": "system", "content": text})
    if turn.request.instructions:
        # As in the turns: so that the prompt begins with what is held of them.
        messages.insert(0, {"role": "system", "content": turn.request.instructions})
    known = replace(turn.account.resumption or Resumption(), output_ids=tuple(spelled))
    tools: dict[str, object] = {}
    if known.tools is not None:
        # At the top of the prompt as in the turns, though none may be called.
        leading = len(list(takewhile(lambda each: each["role"] in _INSTRUCTING, messages)))
        history = known.tools.up_to(len(messages) - leading)
        known = replace(known, tools=history)
        listed = [orjson.loads(tool.json) for tool in history.now]
        tools = {"tools": listed, "tool_choice": "none"}
    request = ChatCompletionRequest.model_validate({
        **tools,
        "model": turn.request.model,
        "messages": messages,
        "max_completion_tokens": most_tokens,
        "temperature": 0,
        "foreword": ForewordOptions(template=TEMPLATE),
    })  # fmt: skip
    account = open_account(services, tenant=turn.account.tenant, prefix="compact_")
    account.ticket, account.deadline_s = turn.account.ticket, turn.account.left_s()
    account.resumption = known
    await begin(services, request, account)
    answer = await complete(services, account)
    usage = account.usage
    return answer["choices"][0]["message"]["content"] or "", {
        "summary_prompt_tokens": usage.prompt_tokens,
        "summary_cached_tokens": usage.cached_tokens,
        "summary_tokens": usage.completion_tokens,
    }


def _is_users(item: SaidItem) -> bool:
    return item.item.get("type") == "message" and item.item.get("role") == "user"


def _text(item: SaidItem) -> str:
    content = item.item.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(item.item.get("arguments") or item.item.get("output") or "")


def _about(text: str) -> int:
    return len(text) // _CHARACTERS_A_TOKEN + 1
