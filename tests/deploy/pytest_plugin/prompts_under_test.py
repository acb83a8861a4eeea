"""Callables that make prompts, good and bad: importable, so that fresh processes can run them."""

import copy
import datetime
import itertools
import json
import locale
import pickle
import random
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

RULES = "You answer questions about ferries.\nBe brief."
_counter = itertools.count()


def request(system: str, question: str = "When does it leave?", **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {"model": "default", "messages": messages, **more}


def stable() -> dict[str, Any]:
    return request(RULES)


def clock_in_the_last_turn() -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).isoformat()
    return request(RULES, f"[{now}] {uuid.uuid4()} When does it leave?")


def constant_date() -> dict[str, Any]:
    return request(RULES + f"\nYour knowledge ends on {datetime.date(2025, 6, 1).isoformat()}.")


def sorted_set() -> dict[str, Any]:
    return request(RULES + " Topics: " + ", ".join(sorted({"fares", "tickets", "dogs", "times"})))


def date_at_the_top() -> dict[str, Any]:
    return request(f"Today is {datetime.date.today():%A, %d %B %Y}. {RULES}")


def time_at_the_top() -> dict[str, Any]:
    return request(f"Now: {time.strftime('%H:%M')}. {RULES}")


def epoch_at_the_top() -> dict[str, Any]:
    return request(f"ts={int(time.time())} {RULES}")


def local_hour() -> dict[str, Any]:
    hour = datetime.datetime.now().hour
    return request(f"Good {'morning' if hour < 12 else 'evening'}! {RULES}")


class Moment(datetime.datetime):
    """As pendulum and the like derive theirs."""


def derived_datetimes() -> dict[str, Any]:
    """Text that shows whether classes and values of datetime are what they always are."""
    moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    facts = [
        isinstance(moment, Moment),
        isinstance(Moment(2026, 1, 2), datetime.datetime),
        isinstance(moment, datetime.date),
        issubclass(Moment, datetime.datetime),
        isinstance(datetime.datetime.strptime("2026", "%Y"), datetime.datetime),
        isinstance(moment + datetime.timedelta(1), datetime.datetime),
        isinstance(datetime.date(2026, 1, 2), datetime.datetime),
        json.dumps({"at": moment}, default=str),
        copy.deepcopy(pickle.loads(pickle.dumps(moment))) == moment,
        f"{time.strftime('%Y', time.gmtime(0))} {datetime.date.fromisoformat('2026-01-02'):%d}",
    ]
    return request(f"{RULES} {facts}")


def request_id() -> dict[str, Any]:
    return request(f"{RULES}\nRequest {uuid.uuid4()}.")


def short_id() -> dict[str, Any]:
    return request(f"{RULES}\nTrace req_{uuid.uuid4().hex[:16]}.")


def set_order() -> dict[str, Any]:
    topics = {"fares", "tickets", "dogs", "times", "bikes", "cars"}
    return request(RULES + " Topics: " + ", ".join(topics))


def set_of_lines() -> dict[str, Any]:
    return request(RULES + "\n" + "\n".join({"Never guess.", "Be polite.", "Name the source."}))


def counter() -> dict[str, Any]:
    return request(f"{RULES} You are agent number {next(_counter)} here.")


def address() -> dict[str, Any]:
    return request(f"{RULES} Context: {object()}")


def shuffled_examples() -> dict[str, Any]:
    examples = [f"Example {letter}: yes." for letter in "ABCDEFGH"]
    random.shuffle(examples)
    return request(RULES + "\n" + "\n".join(examples))


def tools_in_any_order() -> dict[str, Any]:
    names = list({"search", "book", "cancel", "refund", "call"})
    return request(RULES, tools=[{"type": "function", "function": {"name": n}} for n in names])


def keys_in_any_order() -> dict[str, Any]:
    schema = {name: 1 for name in {"adults", "children", "dogs", "bikes"}}  # noqa: C420
    return request(f"{RULES} Fares: {json.dumps(schema)}")


def number_of_the_locale() -> dict[str, Any]:
    locale.setlocale(locale.LC_ALL, "")
    return request(f"{RULES} The fare is {12.5:n}.")


def listing(folder: Path) -> dict[str, Any]:
    return request(RULES + " Files: " + ", ".join(path.name for path in folder.iterdir()))


def globbed(folder: Path) -> dict[str, Any]:
    return request(RULES + " Files: " + ", ".join(path.name for path in folder.glob("*.md")))


def failing_elsewhere(process: int) -> dict[str, Any]:
    import os

    if os.getpid() != process:
        raise LookupError("the database is not open here")
    return stable()


def refuses_another_datetime() -> dict[str, Any]:
    if type(datetime.datetime.now()).__mro__[1] is not datetime.date:
        raise TypeError("not a datetime")
    return stable()


def plain_text() -> str:
    return RULES


def token_ids() -> list[int]:
    return [1, 55_400, 7, random.getrandbits(16)]


class Assistant:
    """A callable with state, as applications have them."""

    def __init__(self, rules: str) -> None:
        self.rules = rules

    def prompt(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.rules}, {"role": "user", "content": "Hi"}]


STABLE: tuple[Callable[[], object], ...] = (
    stable,
    clock_in_the_last_turn,
    constant_date,
    sorted_set,
    derived_datetimes,
    Assistant(RULES).prompt,
)
