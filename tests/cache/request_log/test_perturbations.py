"""Real agent conversations, disturbed as applications disturb them.

What comes in is the same each time: new messages, the tools, the time, a request id. An application
that pastes them together loses its prefix, and the log tells why. One that gives them to a template
and keeps its history as it was sent loses nothing.
"""

import json
import random
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cache.request_log import Diagnosis, LogOptions, diagnose
from prompts import Message, Template, parse_template, render
from prompts.plain_values import plain_message

pytestmark = pytest.mark.slow

_TRACE = Path(__file__).parents[4] / "shared" / "traces" / "taubench_airline.json"
_TASKS = 12
_AT_ONCE = 4
_RECOVERED = 0.995
_KEPT_BYTES = 3_000

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What an application has when it asks the model: all messages so far, and its surroundings."""

    conversation: int
    system: str
    messages: tuple[Body, ...]
    num_new: int
    answer: Body
    tools: tuple[Body, ...]
    now: datetime
    request_id: str
    customer: str

    @property
    def today(self) -> str:
        """The day, as it is written into prompts."""
        return f"{self.now:%d %B %Y}"


def _fields(message: Body) -> Body:
    known = ("role", "content", "tool_calls", "tool_call_id", "name")
    return {key: message[key] for key in known if message.get(key) is not None}


def _tools() -> tuple[Body, ...]:
    chance = random.Random(24)
    return tuple(
        {
            "type": "function",
            "function": {
                "name": f"{verb}_{noun}",
                "description": f"{verb.title()} a {noun} of the customer and say what came of it.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        f"{noun}_{field}": {"type": "string", "description": f"The {field}."}
                        for field in chance.sample(("id", "date", "price", "name", "note"), 3)
                    },
                    "required": [f"{noun}_id"],
                },
            },
        }
        for verb in ("find", "book", "change", "cancel")
        for noun in ("flight", "seat", "meal", "refund", "certificate", "bag")
    )


@pytest.fixture(scope="module")
def turns() -> list[Turn]:
    """The trace's requests; a few conversations run at a time."""
    if not _TRACE.is_file():
        pytest.skip(f"{_TRACE.name} is not here")
    tasks = json.loads(_TRACE.read_text("utf-8"))[:_TASKS]
    running = [list(_conversation(number, task["traj"])) for number, task in enumerate(tasks)]
    ordered: list[Turn] = []
    for first in range(0, _TASKS, _AT_ONCE):
        batch = running[first : first + _AT_ONCE]
        for step in range(max(len(one) for one in batch)):
            ordered += [one[step] for one in batch if step < len(one)]
    start, chance = datetime(2026, 11, 28, 9, 0, 7), random.Random(3)
    return [
        replace(
            turn,
            now=start + number * timedelta(minutes=11, seconds=7),
            request_id=str(uuid.UUID(int=chance.getrandbits(128))),
        )
        for number, turn in enumerate(ordered)
    ]


def _conversation(number: int, trajectory: list[Body]) -> Iterator[Turn]:
    system, *messages = [_fields(message) for message in trajectory]
    tools, asked = _tools(), 0
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            yield Turn(
                conversation=number,
                system=system["content"],
                messages=tuple(messages[:at]),
                num_new=at - asked,
                answer=message,
                tools=tools,
                now=datetime.min,
                request_id="",
                customer=f"{['Mia', 'Omar', 'Ines', 'Yusuf', 'Chen'][number % 5]} Weber-{number}",
            )
            asked = at + 1


# --- an application that pastes its prompts together ---------------------------------------------

Paste = Callable[[Turn, random.Random], Body]


def _body(turn: Turn, system: str | None = None, **changed: Any) -> Body:
    text = turn.system if system is None else system
    messages = [{"role": "system", "content": text}, *turn.messages]
    return {"messages": messages, "tools": list(turn.tools)} | changed


def _stable(turn: Turn, chance: random.Random) -> Body:
    return _body(turn)


def _timestamp(turn: Turn, chance: random.Random) -> Body:
    return _body(turn, f"Current time: {turn.now}\n\n{turn.system}")


def _date(turn: Turn, chance: random.Random) -> Body:
    return _body(turn, f"Today is {turn.today}.\n\n{turn.system}")


def _shuffled(turn: Turn, chance: random.Random) -> Body:
    return _body(turn, tools=chance.sample(turn.tools, len(turn.tools)))


def _picked(turn: Turn, chance: random.Random) -> Body:
    return _body(turn, tools=chance.sample(turn.tools, 8))


def _keys_shuffled(turn: Turn, chance: random.Random) -> Body:
    def shuffled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: shuffled(value[key]) for key in chance.sample(list(value), len(value))}

    return _body(turn, tools=[shuffled(tool) for tool in turn.tools])


def _id_after_system(turn: Turn, chance: random.Random) -> Body:
    return _body(turn, f"{turn.system}\n\nRequest id: {turn.request_id}")


def _id_at_the_end(turn: Turn, chance: random.Random) -> Body:
    body = _body(turn)
    body["messages"].append({"role": "system", "content": f"Request id: {turn.request_id}"})
    return body


def _time_in_the_question(turn: Turn, chance: random.Random) -> Body:
    *before, last = turn.messages
    last = last | {"content": f"[{turn.now}] {last['content']}"}
    return _body(replace(turn, messages=(*before, last)))


def _sliding(turn: Turn, chance: random.Random) -> Body:
    kept, size = list(turn.messages), len(json.dumps(turn.messages))
    while size > _KEPT_BYTES and len(kept) > 1:
        size -= len(json.dumps(kept.pop(0)))
    return _body(replace(turn, messages=tuple(kept)))


def _in_steps(turn: Turn, chance: random.Random) -> Body:
    sizes = [len(json.dumps(message)) for message in turn.messages]
    dropped = 0
    while sum(sizes[dropped:]) > 2 * _KEPT_BYTES and dropped < len(sizes) - 1:
        before = dropped
        while sum(sizes[before:dropped]) < _KEPT_BYTES and dropped < len(sizes) - 1:
            dropped += 1
    return _body(replace(turn, messages=turn.messages[dropped:]))


def _customer_first(turn: Turn, chance: random.Random) -> Body:
    return _body(turn, f"You are talking to {turn.customer}.\n\n{turn.system}")


def _line_ends(turn: Turn, chance: random.Random) -> Body:
    return _body(turn, turn.system.replace("\n", "\r\n") if chance.random() < 0.5 else None)


def _decomposed(turn: Turn, chance: random.Random) -> Body:
    text = f"Sprich höflich mit Zoë und Håkan.\n\n{turn.system}"
    return _body(turn, unicodedata.normalize(chance.choice(("NFC", "NFD")), text))


PASTED: dict[str, tuple[Paste, set[str]]] = {
    "as recorded": (_stable, set()),
    "timestamp at top": (_timestamp, {"FW102"}),
    "date at top": (_date, {"FW102"}),
    "tools shuffled": (_shuffled, {"FW401"}),
    "8 of 24 tools": (_picked, {"FW403"}),
    "tool keys shuffled": (_keys_shuffled, {"FW402"}),
    "request id after the system prompt": (_id_after_system, {"FW103"}),
    "request id at the end": (_id_at_the_end, {"FW605"}),
    "time in the last message": (_time_in_the_question, {"FW605"}),
    "sliding truncation": (_sliding, {"FW602"}),
    "truncation in steps": (_in_steps, {"FW602"}),
    "customer first": (_customer_first, {"FW104"}),
    "line ends": (_line_ends, {"FW202"}),
    "Unicode forms": (_decomposed, {"FW203"}),
}


def _diagnosis(bodies: list[Body], turns: list[Turn]) -> Diagnosis:
    lines = [
        json.dumps({"request": body, "response": {"choices": [{"message": turn.answer}]}}).encode()
        for body, turn in zip(bodies, turns, strict=True)
    ]
    return diagnose(lines, LogOptions())


@pytest.mark.parametrize("name", PASTED)
def test_the_log_names_what_disturbs_the_prefix(name: str, turns: list[Turn]) -> None:
    """That one cause, and none in the log as it was recorded."""
    paste, codes = PASTED[name]
    chance = random.Random(17)
    diagnosis = _diagnosis([paste(turn, chance) for turn in turns], turns)
    assert {finding.code for finding in diagnosis.findings} == codes


# --- the same application on Foreword ------------------------------------------------------------

_AIRLINE = parse_template(
    Path("airline.yaml"),
    b"""
name: airline
version: 1
tools: tools
variables:
  tools: {type: tools, volatility: static}
  policy: {type: text, volatility: static}
  customer: {type: text, volatility: session}
  conversation: {type: messages, volatility: turn}
segments:
  - {id: policy, role: system, volatility: static, text: "{{ policy }}"}
  - {id: customer, role: system, volatility: session, text: "\\n\\nThe customer is {{ customer }}."}
  - {id: conversation, volatility: turn, messages: conversation}
""",
)


@dataclass(slots=True)
class Application:
    """Keeps each conversation as it was sent; what belongs to one request goes into its turn.

    All tools are declared once; a request that may use only some says so in its turn.
    """

    template: Template
    tools: tuple[Body, ...]
    histories: dict[int, list[Message]] = field(default_factory=dict)

    def body(self, turn: Turn, context: str, policy: str) -> Body:
        """The request for a turn; only its new messages are taken, the rest is remembered."""
        history = self.histories.setdefault(turn.conversation, [])
        new = [plain_message(message) for message in turn.messages[-turn.num_new :]]
        if context:
            new.append(Message(role="user", content=context))
        history += new
        prompt = render(
            self.template,
            {
                "tools": list(turn.tools if len(turn.tools) == len(self.tools) else self.tools),
                "policy": policy,
                "customer": turn.customer,
                "conversation": tuple(history),
            },
        )
        history.append(plain_message(turn.answer))
        return {
            "messages": [_sent(message) for message in prompt.messages],
            "tools": [json.loads(tool.json) for tool in prompt.tools],
        }


def _sent(message: Message) -> Body:
    body: Body = {"role": message.role, "content": message.content}
    if message.tool_calls:
        body["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        body["tool_call_id"] = message.tool_call_id
    return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """The same turn as the disturbed application gets it."""

    turn: Turn
    policy: str
    context: str = ""


def _disturbed(name: str, turn: Turn, chance: random.Random) -> Disturbed:
    made = PASTED[name][0](turn, chance)
    text = made["messages"][0]["content"] if name in ("line ends", "Unicode forms") else turn.system
    contexts = {
        "timestamp at top": f"Current time: {turn.now}",
        "date at top": f"Today is {turn.today}.",
        "8 of 24 tools": "Tools: " + ", ".join(t["function"]["name"] for t in made["tools"]),
        "request id after the system prompt": f"Request id: {turn.request_id}",
        "request id at the end": f"Request id: {turn.request_id}",
        "time in the last message": f"[{turn.now}]",
    }
    return Disturbed(
        turn=replace(turn, tools=tuple(made["tools"])), policy=text, context=contexts.get(name, "")
    )


def _hit_rate_built(name: str, turns: list[Turn]) -> float:
    application = Application(_AIRLINE, _tools())
    chance = random.Random(17)
    bodies = [
        application.body(given.turn, given.context, given.policy)
        for given in (_disturbed(name, turn, chance) for turn in turns)
    ]
    diagnosis = _diagnosis(bodies, turns)
    assert not diagnosis.findings
    assert diagnosis.rates.ideal is not None
    return diagnosis.rates.ideal


@pytest.fixture(scope="module")
def stable(turns: list[Turn]) -> float:
    """The hit rate of the prompts that are built from undisturbed input."""
    return _hit_rate_built("as recorded", turns)


@pytest.mark.parametrize("name", sorted(set(PASTED) - {"as recorded"}))
def test_a_template_and_a_kept_history_recover_the_stable_hit_rate(
    name: str, turns: list[Turn], stable: float
) -> None:
    """From every disturbed input, and with a clean log."""
    assert _hit_rate_built(name, turns) >= _RECOVERED * stable
