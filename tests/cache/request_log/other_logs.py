"""The same faults as applications of other styles make them, and more logs without any."""

import json
import random
from collections.abc import Callable
from typing import Any

from prompts import PromptDocument, load_templates, render, shipped_templates
from tests.cache.request_log.logs import (
    RULES,
    TOOLS,
    Body,
    Words,
    assistant,
    clean_single,
    clean_tool_conversations,
    conversations,
    single,
    system,
    user,
)

Make = Callable[[], list[Body]]
_WORDS = Words(777)
# One long line, and paragraphs.
PROSE = " ".join(_WORDS.sentence() for _ in range(60))
PARAGRAPHS = "\n\n".join(" ".join(_WORDS.sentence() for _ in range(4)) for _ in range(15))
_REGIONS = ["alpha", "beta", "gamma", "delta", "epsilon"]
_SETTINGS = {"language": "en", "currency": "EUR", "plan": "pro", "region": "eu-west", "beta": "off"}


def systems(make: Callable[[int, random.Random], str], count: int = 40) -> Make:
    """One-turn requests; `make` writes the i-th system message."""

    def made() -> list[Body]:
        chance = random.Random(4)
        return single(count, lambda i, words: make(i, chance))

    return made


def _texts(count: int) -> list[str]:
    """Documents without any mark."""
    words = Words(500)
    return [" ".join(words.sentence() for _ in range(5)) for _ in range(count)]


def _some(chance: random.Random, parts: list[str], count: int) -> list[str]:
    """Some of the parts, in their order."""
    return [parts[n] for n in sorted(chance.sample(range(len(parts)), count))]


def _cycled(names: list[str], i: int) -> str:
    return names[i * 7 % len(names)]


_DOCUMENTS = _texts(5)
_MANY = _texts(14)
_RECORDS: list[Body] = [{"title": f"T{i}", "content": text} for i, text in enumerate(_DOCUMENTS)]
_FIRST_NAMES = ["Priya", "Tom", "Mei", "Jürgen", "Aïcha", "Olu", "Rosa", "Ivan"]
_LOGINS = ["alice", "bob", "carol", "dave", "eve", "frank"]
_TENANTS = ["acme-corp", "globex", "initech", "umbrella", "hooli", "stark"]


def _examples(question: str, answer: str, count: int) -> list[str]:
    words = Words(9)
    return [f"{question} {words.question()}\n{answer} {words.answer()}\n" for _ in range(count)]


_INPUTS, _USERS, _QUESTIONS = (
    _examples("Input:", "Output:", 12),
    _examples("User:", "Assistant:", 12),
    _examples("Q:", "A:", 20),
)


def _numbered_examples(i: int, chance: random.Random) -> str:
    chosen = enumerate(chance.sample(_USERS, 5), start=1)
    return "".join(f"### Example {k}\n{example}\n" for k, example in chosen) + PARAGRAPHS


def _numbered_documents(i: int, chance: random.Random) -> str:
    shown = enumerate(chance.sample(_DOCUMENTS, 5), start=1)
    return f"{PARAGRAPHS}\n\nContext:\n" + "\n".join(f"[{k}] {text}" for k, text in shown)


def _branches(i: int, chance: random.Random) -> str:
    optional = (
        "Premium customers may get a refund without asking.\n" * (i * 7 % 3 == 0)
        + "Speak German.\n" * (i * 5 % 4 == 0)
        + "Offer a voucher first.\n" * (i * 11 % 5 < 2)
    )
    return optional + PARAGRAPHS


def _required_in_another_order() -> list[Body]:
    bodies = []
    for i, body in enumerate(clean_single()):
        tools = json.loads(json.dumps(TOOLS))
        for tool in tools if i % 2 else []:
            tool["function"]["parameters"]["required"].reverse()
        bodies.append({**body, "tools": tools})
    return bodies


def _line_ends_with_tools() -> list[Body]:
    windows = PARAGRAPHS.replace("\n", "\r\n")
    return [
        body | {"messages": [system(windows if i % 2 else PARAGRAPHS), body["messages"][1]]}
        for i, body in enumerate(clean_single())
    ]


def _names_in_the_users_field() -> list[Body]:
    users = ["zetax", "zetay", "iotax", "iotay", "rhox"]
    made = systems(lambda i, _: f"Working set of {_cycled(users, i + i // 5)} below.\n{PARAGRAPHS}")
    return [body | {"user": _cycled(users, i + i // 5)} for i, body in enumerate(made())]


def _counter_in_conversations() -> list[Body]:
    return [
        {"messages": [system(f"You have {i % 7 + 2} unread notes.\n{RULES}"), *messages[1:]]}
        for i, (_, messages) in enumerate(conversations())
    ]


def _cut_without_system() -> list[Body]:
    return [{"messages": messages[1:][-7:]} for _, messages in conversations(4, 9)]


def _reasoning_only_in_answers() -> list[Body]:
    words, bodies = Words(4), []
    histories = [[system(RULES)] for _ in range(4)]
    for history in histories * 6:
        history.append(user(words.question()))
        answer = words.answer()
        full = assistant(f"<think>{' '.join(words.lines(6))}</think>\n\n{answer}")
        response = {"choices": [{"message": full}]}
        bodies.append({"request": {"messages": list(history)}, "response": response})
        history.append(assistant(answer))
    return bodies


def _results_written_anew() -> list[Body]:
    def anew(message: Body) -> Body:
        pretty = json.dumps(json.loads(message["content"]), indent=2)
        return message | {"content": pretty}

    return [
        body
        | {
            "messages": [
                anew(message) if message["role"] == "tool" and left > 3 else message
                for left, message in zip(
                    range(len(body["messages"]), 0, -1), body["messages"], strict=True
                )
            ]
        }
        for body in clean_tool_conversations()
    ]


def _marked(count: int) -> list[str]:
    return [f"<document>{text}</document>\n" for text in _texts(count)]


def _documents_not_kept() -> list[Body]:
    documents, chance = _marked(20), random.Random(8)
    return [
        {
            "messages": [
                *messages[:-1],
                user("".join(chance.sample(documents, 3)) + messages[-1]["content"]),
            ]
        }
        for _, messages in conversations()
    ]


# Tests and demonstrations fill their prompts with one sentence again and again.
_FILLER = "You are a helpful assistant of a shop. " * 120
_FILLER_LINES = "Always be polite.\n" * 200

STYLES: dict[str, tuple[Make, str]] = {
    "epoch in prose": (
        systems(lambda i, _: f"You help. Server time {1_790_000_000 + i * 37}. {PROSE}"),
        "FW102",
    ),
    "weekday behind text": (
        systems(
            lambda i, _: (
                f"{PROSE[:300]}\nIt is Tuesday 3 March 2026, {9 + i % 3}:{i:02d} AM (CET).\n"
                f"{PARAGRAPHS}"
            )
        ),
        "FW102",
    ),
    "time within JSON": (
        systems(
            lambda i, _: json.dumps(
                {"rules": PROSE[:200], "now": f"2026-11-29T10:{i:02d}:01.1+01:00", "more": PROSE}
            )
        ),
        "FW102",
    ),
    "German date": (
        systems(lambda i, _: f"Heute ist der {i % 28 + 1}.11.2026, {8 + i % 9}:15.\n{PARAGRAPHS}"),
        "FW102",
    ),
    "ULID": (
        systems(lambda i, _: f"session: 01J9ZC8M2Q4R7T9VX3B5A{i:02d}P8K0\n{PARAGRAPHS}"),
        "FW103",
    ),
    "numbered request": (systems(lambda i, _: f"Request #{48213 + i}\n{PARAGRAPHS}"), "FW103"),
    "trace id in prose": (
        systems(lambda i, c: f"You help (trace={c.getrandbits(64):016x}). {PROSE}"),
        "FW103",
    ),
    "greeting": (
        systems(lambda i, _: f"Hello {_cycled(_FIRST_NAMES, i)}! Ask me.\n{PARAGRAPHS}"),
        "FW104",
    ),
    "user_name key": (
        systems(lambda i, _: f"user_name: {_cycled(_LOGINS, i)}\nplan: pro\n{PARAGRAPHS}"),
        "FW104",
    ),
    "e-mail address": (
        systems(lambda i, _: f"The account is {_cycled(_LOGINS, i)}@example.com.\n{PARAGRAPHS}"),
        "FW104",
    ),
    "tenant": (systems(lambda i, _: f"Tenant: {_cycled(_TENANTS, i)}\n{PARAGRAPHS}"), "FW104"),
    "the body's user": (_names_in_the_users_field, "FW104"),
    "documents under headings first": (
        systems(lambda i, c: "".join(f"## {t}\n\n" for t in _some(c, _MANY, 4)) + PARAGRAPHS),
        "FW501",
    ),
    "bare paragraphs first": (
        systems(lambda i, c: "".join(f"{t}\n\n" for t in _some(c, _MANY, 4)) + PARAGRAPHS),
        "FW501",
    ),
    "numbered documents permuted": (systems(_numbered_documents), "FW502"),
    "JSON documents permuted": (
        systems(lambda i, c: f"{PARAGRAPHS}\n\nContext: {json.dumps(c.sample(_RECORDS, 5))}"),
        "FW502",
    ),
    "paragraphs permuted": (
        systems(lambda i, c: "\n\n".join((PARAGRAPHS, *c.sample(_DOCUMENTS, 5)))),
        "FW502",
    ),
    "input and output": (
        systems(lambda i, c: "\n".join((PARAGRAPHS, "", *c.sample(_INPUTS, 5), PROSE[:2000]))),
        "FW107",
    ),
    "numbered examples": (systems(_numbered_examples), "FW107"),
    "examples last": (
        systems(lambda i, c: "\n".join((PARAGRAPHS, "", *c.sample(_QUESTIONS, 10)))),
        "FW107",
    ),
    "French numbers": (
        systems(
            lambda i, _: f"Budget: {('1,234.50', '1 234,50')[i % 2]} EUR.\n{PARAGRAPHS}".replace(
                "1 234", "1\u202f234"
            )
        ),
        "FW205",
    ),
    "blank lines": (
        systems(lambda i, _: PARAGRAPHS.replace("\n\n", "\n\n\n") if i % 3 == 0 else PARAGRAPHS),
        "FW206",
    ),
    "tabs": (systems(lambda i, _: RULES.replace("- ", "\t- ") if i % 3 == 0 else RULES), "FW206"),
    "zero-width spaces": (
        systems(lambda i, _: PROSE.replace("par", "par\u200b") if i % 3 == 0 else PROSE),
        "FW207",
    ),
    "CRLF with tools": (_line_ends_with_tools, "FW202"),
    "required parameters": (_required_in_another_order, "FW402"),
    "mapping as lines": (
        systems(
            lambda i, c: "\n".join(
                ["Settings:", *(f"{k}: {v}" for k, v in c.sample([*_SETTINGS.items()], 5)), RULES]
            )
        ),
        "FW204",
    ),
    "mapping as Python": (
        systems(lambda i, c: f"Settings: {dict(c.sample([*_SETTINGS.items()], 5))}\n{RULES}"),
        "FW204",
    ),
    "set as Python": (
        systems(lambda i, c: f"Allowed: {{{str(c.sample(_REGIONS, 5))[1:-1]}}}.\n\n{PARAGRAPHS}"),
        "FW209",
    ),
    "set as list": (
        systems(lambda i, c: "\n- ".join(("Allowed:", *c.sample(_REGIONS, 5))) + f"\n\n{RULES}"),
        "FW209",
    ),
    "counter in conversations": (_counter_in_conversations, "FW101"),
    "branches": (systems(_branches, 60), "FW106"),
    "cut, no system message": (_cut_without_system, "FW602"),
    "reasoning only in answers": (_reasoning_only_in_answers, "FW604"),
    "tool results": (_results_written_anew, "FW404"),
    "name before filler": (
        systems(
            lambda i, _: f"You serve the customer {_cycled(_FIRST_NAMES, i)}.\n{_FILLER_LINES}"
        ),
        "FW104",
    ),
    "time before filler": (systems(lambda i, _: f"It is 10:{i:02d}. {_FILLER}"), "FW102"),
    "documents not kept": (_documents_not_kept, "FW605"),
}


# --- without a fault ----------------------------------------------------------------------------


def _documents_kept() -> list[Body]:
    words, documents, bodies = Words(8), _marked(20), []
    histories = [[system(RULES)] for _ in range(4)]
    for history in histories * 6:
        shown = "".join(_some(words.random, documents, 3))
        history.append(user(shown + words.question()))
        bodies.append({"messages": list(history)})
        history.append(assistant(words.answer()))
    return bodies


def _documents_in_the_question() -> list[Body]:
    words, documents = Words(8), _marked(200)
    return [
        {
            "messages": [
                system(RULES),
                user(
                    "".join(words.random.sample(documents, 3)) + words.question() + "\n\nBriefly."
                ),
            ]
        }
        for _ in range(50)
    ]


def _asked_again() -> list[Body]:
    return [{"messages": messages} for _, messages in conversations() for _ in range(2)]


def _last_question_edited() -> list[Body]:
    words = Words(2)
    return [
        {"messages": edited}
        for _, messages in conversations()
        for edited in (messages, [*messages[:-1], user(words.question())])
    ]


def _all_different() -> list[Body]:
    return [
        {"messages": [system("\n".join(Words(1000 + i).lines(40))), user(Words(i).question())]}
        for i in range(30)
    ]


def _started_in_the_middle() -> list[Body]:
    return [{"messages": messages} for _, messages in [*conversations(6, 8)][24:]]


def _two_callers() -> list[Body]:
    return [{**b, "tools": TOOLS if i % 2 else TOOLS[:3]} for i, b in enumerate(clean_single())]


def _personal_questions() -> list[Body]:
    words = Words(3)
    return [
        {
            "messages": [
                system(RULES),
                user(
                    f"Order {100_000 + i * 37} of 2026-0{i % 9 + 1}-1{i % 9} is late. I am "
                    f"{_cycled(_FIRST_NAMES, i)}, a{i}@b.example. {words.question()}"
                ),
            ]
        }
        for i in range(40)
    ]


def _titles_between() -> list[Body]:
    task = system("Write a title of at most five words for this conversation.")
    bodies: list[Body] = []
    for i, (_, messages) in enumerate(conversations()):
        bodies.append({"messages": messages})
        if i % 3 == 0:
            text = "\n".join(message["content"] for message in messages[1:])
            bodies.append({"messages": [task, user(text)]})
    return bodies


def _chained_responses() -> list[Body]:
    words, lines = Words(5), []
    for conversation in range(3):
        before: Body = {"instructions": RULES}
        for turn in range(5):
            content = [{"type": "output_text", "text": words.answer()}]
            answer = {"type": "message", "role": "assistant", "content": content}
            response = {"id": f"resp_{conversation}_{turn}", "output": [answer]}
            request = before | {"input": words.question()}
            lines.append({"request": request, "response": response})
            before = {"previous_response_id": response["id"]}
    return lines


def _short_rules() -> list[Body]:
    rules = "You are a helpful assistant."
    return [{"messages": messages} for _, messages in conversations(6, 5, rules=rules)]


def _pasted_code() -> list[Body]:
    words = Words(6)

    def code(end: str) -> str:
        return end.join(("Fix this:", "```", *words.lines(20), "```"))

    return [{"messages": [system(RULES), user(code("\r\n" if i % 2 else "\n"))]} for i in range(30)]


def _shipped_template() -> list[Body]:
    words = Words(3)
    template = load_templates(shipped_templates()).find("docqa")
    documents = [PromptDocument(name=f"d{i}", text=text) for i, text in enumerate(_DOCUMENTS)]
    return [
        {"messages": [{"role": m.role, "content": m.content} for m in prompt.messages]}
        for prompt in (
            render(template, {"documents": documents, "question": words.question()})
            for _ in range(40)
        )
    ]


def _filler() -> list[Body]:
    return systems(lambda i, _: _FILLER)() + systems(lambda i, _: _FILLER_LINES)()


def _parallel_calls() -> list[Body]:
    words, bodies = Words(9), []

    def call(identity: str) -> Body:
        arguments = json.dumps({"q": words.token(5)})
        function = {"name": "search", "arguments": arguments}
        return {"id": identity, "type": "function", "function": function}

    for conversation in range(4):
        history: list[Any] = [system(RULES), user(words.question())]
        bodies.append({"messages": list(history), "tools": TOOLS})
        for turn in range(5):
            ids = [f"c{conversation}{turn}{k}" for k in range(2)]
            calls = [call(identity) for identity in ids]
            history.append({"role": "assistant", "content": None, "tool_calls": calls})
            for identity in ids:
                result = json.dumps({"at": f"2026-11-29T10:0{turn}", "text": words.sentence()})
                history.append({"role": "tool", "tool_call_id": identity, "content": result})
            bodies.append({"messages": list(history), "tools": TOOLS})
    return bodies


MORE_CLEAN: dict[str, Make] = {
    made.__name__.strip("_"): made
    for made in (
        _documents_kept,
        _documents_in_the_question,
        _asked_again,
        _last_question_edited,
        _all_different,
        _started_in_the_middle,
        _two_callers,
        _personal_questions,
        _titles_between,
        _chained_responses,
        _short_rules,
        _pasted_code,
        _shipped_template,
        _parallel_calls,
        _filler,
    )
}
