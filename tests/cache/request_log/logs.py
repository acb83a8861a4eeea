"""Request logs with one known fault each, and logs without any, made from a seed."""

import json
import random
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

Body = dict[str, Any]

_SUBJECTS = [
    "order",
    "refund",
    "parcel",
    "invoice",
    "account",
    "booking",
    "ticket",
    "policy",
    "warranty",
    "return",
]
_VERBS = [
    "check",
    "confirm",
    "explain",
    "record",
    "refuse",
    "forward",
    "close",
    "cancel",
    "repeat",
    "translate",
]
_ENDS = ["before you answer", "in plain words", "with its number", "once", "when asked", "politely"]
_PLACES = ["Lyon", "Porto", "Graz", "Turku", "Cork", "Gdansk", "Basel", "Leeds", "Malmö", "Brno"]


class Words:
    """Sentences from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def sentence(self) -> str:
        """A rule that hardly ever comes twice."""
        pick = self.random.choice
        number = self.random.randrange(10, 99)
        return (
            f"When a {pick(_SUBJECTS)} is late by {number} days, {pick(_VERBS)} the "
            f"{pick(_SUBJECTS)} and {pick(_VERBS)} it {pick(_ENDS)} (case {pick(_PLACES)})."
        )

    def lines(self, count: int) -> list[str]:
        """Sentences, one a line."""
        return [f"- {self.sentence()}" for _ in range(count)]

    def question(self) -> str:
        """What a customer asks."""
        pick = self.random.choice
        return f"Can you {pick(_VERBS)} my {pick(_SUBJECTS)} from {pick(_PLACES)}, {self.token(5)}?"

    def answer(self) -> str:
        """What the model says."""
        return f"I will {self.random.choice(_VERBS)} that now. {self.sentence()}"

    def token(self, length: int) -> str:
        """Letters that make a text its own."""
        return "".join(self.random.choices("abcdefghijklmnopqrstuvwxyz", k=length))


RULES = "You are the assistant of a mail-order shop. Follow these rules.\n" + "\n".join(
    Words(1).lines(60)
)


def system(text: str) -> Body:
    """A system message."""
    return {"role": "system", "content": text}


def user(text: str) -> Body:
    """A user message."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Body:
    """An answer."""
    return {"role": "assistant", "content": text}


def single(count: int, make: Callable[[int, Words], str], *, seed: int = 7) -> list[Body]:
    """Requests of one turn; `make` writes the system message of the i-th."""
    words = Words(seed)
    return [{"messages": [system(make(i, words)), user(words.question())]} for i in range(count)]


def tool(name: str, parameters: int = 4) -> Body:
    """A tool with a schema of some length."""
    words = Words(sum(name.encode()))
    properties = {
        f"{words.token(6)}": {"type": "string", "description": words.sentence()}
        for _ in range(parameters)
    }
    schema = {"type": "object", "properties": properties, "required": sorted(properties)[:2]}
    function = {"name": name, "description": words.sentence(), "parameters": schema}
    return {"type": "function", "function": function}


TOOLS = [
    tool(name) for name in ["find_order", "refund_order", "track_parcel", "open_ticket", "search"]
]


def conversations(
    number: int = 4,
    num_turns: int = 6,
    *,
    seed: int = 5,
    answer: Callable[[Words], str] = Words.answer,
    rules: str = RULES,
) -> Iterator[tuple[int, list[Body]]]:
    """Interleaved conversations: (conversation, messages) for every turn of each."""
    words = Words(seed)
    histories: list[list[Body]] = [[system(rules)] for _ in range(number)]
    for _ in range(num_turns):
        for conversation, history in enumerate(histories):
            history.append(user(words.question()))
            yield conversation, list(history)
            history.append(assistant(answer(words)))


def to_lines(bodies: list[Body]) -> list[bytes]:
    """A log of bare bodies."""
    return [json.dumps(body, ensure_ascii=False).encode() + b"\n" for body in bodies]


# --- logs without a fault -----------------------------------------------------------------------


def clean_single() -> list[Body]:
    """One template, one turn."""
    return single(40, lambda i, words: RULES)


def clean_conversations() -> list[Body]:
    """Four conversations whose turns come interleaved."""
    return [{"messages": messages} for _, messages in conversations()]


def clean_clock_in_last_turn() -> list[Body]:
    """A constant date in the system text; the time and an id in the last user turn."""
    words = Words(3)
    text = f"Knowledge cut-off: 2026-01-31.\n{RULES}"
    return [
        {
            "messages": [
                system(text),
                user(f"[2026-11-29T10:{i:02d}:07Z, request 7f3a{i:04d}bc] {words.question()}"),
            ]
        }
        for i in range(40)
    ]


def clean_tools() -> list[Body]:
    """The same tools each time."""
    return [{**body, "tools": TOOLS} for body in clean_single()]


def clean_two_templates() -> list[Body]:
    """Two templates that share their first and last lines."""
    other = RULES.splitlines()[0] + "\n" + "\n".join(Words(2).lines(50)) + RULES[-300:]
    return single(40, lambda i, words: RULES if i % 2 else other)


def clean_tool_conversations() -> list[Body]:
    """Parallel conversations with tool calls and results."""
    bodies: list[Body] = []
    words = Words(11)
    histories: list[list[Body]] = [[system(RULES)] for _ in range(5)]
    for turn in range(5):
        for number, history in enumerate(histories):
            history.append(user(words.question()))
            bodies.append({"messages": list(history), "tools": TOOLS})
            call = {"name": "find_order", "arguments": json.dumps({"number": words.token(6)})}
            identity = f"call_{turn}_{number}"
            history.append(
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": identity, "type": "function", "function": call}],
                }
            )
            result = json.dumps({"state": words.sentence()})
            history.append({"role": "tool", "tool_call_id": identity, "content": result})
            bodies.append({"messages": list(history), "tools": TOOLS})
            history.append(assistant(words.answer()))
    return bodies


def clean_sessions() -> list[Body]:
    """Own instructions of each session, behind the shared rules."""
    bodies: list[Body] = []
    for number in range(6):
        rules = f"{RULES}\n\nThe customer is {_PLACES[number]} branch, contract {number + 4}."
        bodies += [
            {"messages": messages} for _, messages in conversations(1, 4, seed=number, rules=rules)
        ]
    return bodies


def clean_new_version() -> list[Body]:
    """A template that was changed once, in the middle of the log."""
    new = RULES.replace("mail-order shop", "web shop")
    return single(40, lambda i, words: RULES if i < 20 else new)


def clean_retrieval() -> list[Body]:
    """Documents in a fixed order behind the rules, chosen by the question."""
    words = Words(21)
    documents = [_document(words, number) for number in range(12)]
    return single(
        40,
        lambda i, words: RULES + "".join(documents[n] for n in _chosen(words, 12, 3)),
    )


def clean_no_system() -> list[Body]:
    """Short questions with nothing in common."""
    words = Words(31)
    return [{"messages": [user(words.question())]} for _ in range(30)]


def clean_fixed_examples() -> list[Body]:
    """The same example turns each time."""
    words = Words(41)
    examples = [m for _ in range(3) for m in (user(words.question()), assistant(words.answer()))]
    return [{"messages": [system(RULES), *examples, user(words.question())]} for _ in range(30)]


CLEAN: dict[str, Callable[[], list[Body]]] = {
    made.__name__: made
    for made in (
        clean_single,
        clean_conversations,
        clean_clock_in_last_turn,
        clean_tools,
        clean_two_templates,
        clean_tool_conversations,
        clean_sessions,
        clean_new_version,
        clean_retrieval,
        clean_no_system,
        clean_fixed_examples,
    )
}


# --- logs with one fault ------------------------------------------------------------------------


def _document(words: Words, number: int) -> str:
    text = " ".join(words.sentence() for _ in range(4))
    return f'\n<document name="doc-{number}">\n{text}\n</document>'


def _chosen(words: Words, of: int, count: int) -> list[int]:
    return sorted(words.random.sample(range(of), count))


def clock_at_top() -> list[Body]:
    """L01."""
    return single(40, lambda i, words: f"Current time: 2026-11-29 10:{i:02d}:41\n{RULES}")


def clock_in_words() -> list[Body]:
    """L01, spelled for people and inside a sentence."""
    return single(
        40,
        lambda i, words: f"Today is Monday, November {i % 28 + 1}, 2026, {i % 12}:05 PM. {RULES}",
    )


def id_at_top() -> list[Body]:
    """L02."""

    def make(i: int, words: Words) -> str:
        parts = [f"{words.random.getrandbits(size * 4):0{size}x}" for size in (8, 4, 4, 4, 12)]
        return f"Request {'-'.join(parts)}\n{RULES}"

    return single(40, make)


def tools_shuffled() -> list[Body]:
    """L03."""
    words = Words(9)
    return [{**body, "tools": words.random.sample(TOOLS, len(TOOLS))} for body in clean_single()]


def tool_keys_shuffled() -> list[Body]:
    """L04."""
    words = Words(9)
    return [
        {**body, "tools": [_shuffled(item, words) for item in TOOLS]} for body in clean_single()
    ]


def _shuffled(value: Any, words: Words) -> Any:
    if not isinstance(value, dict):
        return value
    keys = words.random.sample(list(value), len(value))
    return {key: _shuffled(value[key], words) for key in keys}


def user_name() -> list[Body]:
    """L05."""
    names = ["Bob Jones", "Ann Smith", "Li Wei", "Eva Novak", "Omar Haddad", "Zoë Dupont"]
    return single(
        48, lambda i, words: f"You are the assistant of {names[i % 6]}. Be brief.\n{RULES}"
    )


def json_keys_in_text() -> list[Body]:
    """L06."""
    settings = {"language": "en", "currency": "EUR", "limit": 20, "branch": "Porto", "beta": False}

    def make(i: int, words: Words) -> str:
        return f"Settings: {json.dumps(_shuffled(settings, words))}\n{RULES}"

    return single(40, make)


def line_ends() -> list[Body]:
    """L07."""
    return single(40, lambda i, words: RULES.replace("\n", "\r\n") if i % 3 == 0 else RULES)


def unicode_forms() -> list[Body]:
    """L08."""
    text = f"Grüße die Kundin höflich, zum Beispiel für Malmö.\n{RULES}"
    return single(40, lambda i, words: unicodedata.normalize("NFD" if i % 2 else "NFC", text))


def trailing_blanks() -> list[Body]:
    """L09."""
    return single(40, lambda i, words: RULES.replace("\n", " " * words.random.randrange(3) + "\n"))


def documents_first() -> list[Body]:
    """L10."""
    words = Words(21)
    documents = [_document(words, number) for number in range(12)]
    return single(
        40, lambda i, words: "".join(documents[n] for n in _chosen(words, 12, 3)) + "\n" + RULES
    )


def documents_permuted() -> list[Body]:
    """L11."""
    words = Words(21)
    documents = [_document(words, number) for number in range(6)]
    return single(40, lambda i, words: RULES + "".join(words.random.sample(documents, 6)))


def documents_by_score() -> list[Body]:
    """L11, with some of the documents, in the user message."""
    words = Words(21)
    documents = [_document(words, number) for number in range(5)]
    return [
        {
            "messages": [
                system(RULES),
                user("".join(words.random.sample(documents, 4)) + "\n" + words.question()),
            ]
        }
        for _ in range(40)
    ]


def tool_inserted() -> list[Body]:
    """L12."""
    extra = tool("apply_discount")
    bodies = []
    for _, messages in conversations():
        turn = sum(message["role"] == "user" for message in messages)
        tools = [extra, *TOOLS] if turn >= 3 else TOOLS
        bodies.append({"messages": messages, "tools": tools})
    return bodies


def truncated_front() -> list[Body]:
    """L13."""
    return [
        {"messages": [messages[0], *messages[1:][-6:]] if len(messages) > 7 else messages}
        for _, messages in conversations(4, 9)
    ]


def truncated_front_odd() -> list[Body]:
    """L13, where the cut leaves an answer first."""
    return [{"messages": [messages[0], *messages[1:][-5:]]} for _, messages in conversations(4, 9)]


def reasoning_stripped() -> list[Body]:
    """L14."""

    def think(words: Words) -> str:
        return f"<think>\n{' '.join(words.lines(6))}\n</think>\n{words.answer()}"

    bodies = []
    for _, messages in conversations(4, 6, answer=think):
        kept = [
            assistant(message["content"].split("</think>\n")[1])
            if message["role"] == "assistant" and position < len(messages) - 2
            else message
            for position, message in enumerate(messages)
        ]
        bodies.append({"messages": kept})
    return bodies


def below_page() -> list[Body]:
    """L15."""
    return single(40, lambda i, words: "You are a shop assistant. Be brief.")


def duplicate_chunks() -> list[Body]:
    """L16."""
    words = Words(21)
    documents = [_document(words, number) for number in range(12)]

    def make(i: int, words: Words) -> str:
        chosen = _chosen(words, 12, 3)
        return RULES + "".join(documents[n] for n in [*chosen, chosen[0]])

    return single(40, make)


def sampled_examples() -> list[Body]:
    """L17."""
    words = Words(51)
    pool = [f"Q: {words.question()}\nA: {words.answer()}\n" for _ in range(10)]
    return single(
        40,
        lambda i, words: (
            "Answer as in these examples.\n\n"
            + "\n".join(words.random.sample(pool, 4))
            + "\n"
            + RULES
        ),
    )


def sampled_example_turns() -> list[Body]:
    """L17, with the examples as turns."""
    words = Words(51)
    pool = [(user(words.question()), assistant(words.answer())) for _ in range(8)]
    return [
        {
            "messages": [
                system(RULES),
                *(message for pair in words.random.sample(pool, 4) for message in pair),
                user(words.question()),
            ]
        }
        for _ in range(40)
    ]


def many_tenants() -> list[Body]:
    """L18: twelve tenants in turn, each with long rules of its own."""
    rules = [
        f"You serve tenant {number}.\n" + "\n".join(Words(100 + number).lines(60))
        for number in range(12)
    ]
    return single(60, lambda i, words: rules[i % 12])


def invisible_characters() -> list[Body]:
    """L19."""

    def make(i: int, words: Words) -> str:
        marked = ("\ufeff" + RULES, RULES.replace("late by", "late\u00a0by"), RULES)
        return marked[i % 3]

    return single(40, make)


def number_formats() -> list[Body]:
    """L20."""
    return single(
        40,
        lambda i, words: f"The limit is {'1.234,50' if i % 2 else '1,234.50'} EUR.\n{RULES}",
    )


def salt_for_each_request() -> list[Body]:
    """A salt that is made anew for each request."""
    return [{**body, "cache_salt": f"s{i}"} for i, body in enumerate(clean_single())]


def tools_picked() -> list[Body]:
    """Some of the tools, chosen for each request."""
    words = Words(9)
    tools = [tool(f"tool_{number}") for number in range(24)]
    return [{**body, "tools": [tools[n] for n in _chosen(words, 24, 8)]} for body in clean_single()]


def context_not_kept() -> list[Body]:
    """The time is put before the last question and is gone from it in the next turn."""
    bodies = []
    for i, (_, messages) in enumerate(conversations()):
        last = user(f"[now 2026-11-29 10:{i:02d}:07]\n{messages[-1]['content']}")
        bodies.append({"messages": [*messages[:-1], last]})
    return bodies


def arguments_rewritten() -> list[Body]:
    """Arguments of past calls are written anew, without blanks."""
    bodies = []
    for body in clean_tool_conversations():
        messages = []
        for position, message in enumerate(body["messages"]):
            if "tool_calls" in message and position < len(body["messages"]) - 2:
                call = message["tool_calls"][0]
                function = dict(call["function"])
                function["arguments"] = function["arguments"].replace(": ", ":")
                message = {**message, "tool_calls": [{**call, "function": function}]}
            messages.append(message)
        bodies.append({**body, "messages": messages})
    return bodies


def summary_for_turns() -> list[Body]:
    """All but the last turns give way to a summary."""
    words = Words(61)
    bodies = []
    for _, messages in conversations(4, 9):
        if len(messages) > 8:
            summary = system(f"Summary of the conversation so far: {words.sentence()}")
            messages = [messages[0], summary, *messages[-4:]]
        bodies.append({"messages": messages})
    return bodies


def edited_history() -> list[Body]:
    """Long answers are shortened once they are history."""
    bodies = []
    for _, messages in conversations(4, 6):
        edited = [
            assistant(message["content"][:40] + " …")
            if message["role"] == "assistant" and position < len(messages) - 2
            else message
            for position, message in enumerate(messages)
        ]
        bodies.append({"messages": edited})
    return bodies


def clock_in_tool() -> list[Body]:
    """A tool's description says what time it is."""
    bodies = []
    for i, body in enumerate(clean_single()):
        changed = json.loads(json.dumps(TOOLS))
        changed[0]["function"]["description"] += f" It is 10:{i:02d} now."
        bodies.append({**body, "tools": changed})
    return bodies


def members_of_a_set() -> list[Body]:
    """A set is written out in its own order."""
    regions = [place.lower() for place in _PLACES]
    return single(
        40,
        lambda i, words: (
            f"Regions: {', '.join(words.random.sample(regions, len(regions)))}.\n{RULES}"
        ),
    )


def question_first() -> list[Body]:
    """The question stands before a long context that all requests share."""
    words = Words(71)
    context = "\n".join(words.lines(50))
    return [
        {"messages": [user(f"{words.question()}\n\nUse this handbook:\n{context}")]}
        for _ in range(40)
    ]


FAULTS: dict[str, tuple[Callable[[], list[Body]], set[str]]] = {
    "L01": (clock_at_top, {"FW102"}),
    "L01-words": (clock_in_words, {"FW102"}),
    "L02": (id_at_top, {"FW103"}),
    "L03": (tools_shuffled, {"FW401"}),
    "L04": (tool_keys_shuffled, {"FW402"}),
    "L05": (user_name, {"FW104"}),
    "L06": (json_keys_in_text, {"FW208"}),
    "L07": (line_ends, {"FW202"}),
    "L08": (unicode_forms, {"FW203"}),
    "L09": (trailing_blanks, {"FW201"}),
    "L10": (documents_first, {"FW501"}),
    "L11": (documents_permuted, {"FW502"}),
    "L11-score": (documents_by_score, {"FW502"}),
    "L12": (tool_inserted, {"FW403"}),
    "L13": (truncated_front, {"FW602"}),
    "L13-odd": (truncated_front_odd, {"FW602"}),
    "L14": (reasoning_stripped, {"FW604"}),
    "L15": (below_page, {"FW302"}),
    "L16": (duplicate_chunks, {"FW504"}),
    "L17": (sampled_examples, {"FW107"}),
    "L17-turns": (sampled_example_turns, {"FW107"}),
    "L18": (many_tenants, {"FW702"}),
    "L19": (invisible_characters, {"FW207"}),
    "L20": (number_formats, {"FW205"}),
    "salts": (salt_for_each_request, {"FW701"}),
    "tools-picked": (tools_picked, {"FW403"}),
    "context-not-kept": (context_not_kept, {"FW605"}),
    "arguments": (arguments_rewritten, {"FW404"}),
    "summary": (summary_for_turns, {"FW603"}),
    "edited": (edited_history, {"FW601"}),
    "clock-in-tool": (clock_in_tool, {"FW405"}),
    "set": (members_of_a_set, {"FW209"}),
    "question-first": (question_first, {"FW105"}),
}
