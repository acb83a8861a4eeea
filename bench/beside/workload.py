"""Live requests and a batch, the same for the same seed. Pure.

Every live prompt is shorter than every line's, so that an engine's list of what it answered tells
them apart.
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.micro.words import sentences

SPLIT_TOKENS = 1900


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Tokens of prompts, about, and how many share what.

    Attributes:
        live_prefixes: long conversations that live requests go on with.
        cold_share: live requests that share nothing.
        rate: live requests a second, on average.
    """

    live_prefixes: int = 10
    live_prefix_tokens: int = 1000
    live_new_tokens: int = 200
    cold_share: float = 0.2
    cold_tokens: int = 1500
    live_answer_tokens: int = 24
    rate: float = 1.0
    batch_prefixes: int = 20
    batch_prefix_tokens: int = 2000
    line_tokens: int = 60
    line_answer_tokens: int = 16
    lines: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A live request, so many seconds after its window's beginning."""

    at_s: float
    body: bytes


def live_requests(
    shape: Shape, *, seconds: float, seed: int, nonce: str, text: Callable[[int, int], str]
) -> list[Live]:
    """One window's; windows of one seed have the same arrivals and sizes, and other words.

    Args:
        text: words of about so many tokens, the same for the same number.
    """
    chance = random.Random(seed)
    made: list[Live] = []
    at_s = chance.expovariate(shape.rate)
    while at_s < seconds:
        new = f"{nonce} {len(made)} "
        if chance.random() < shape.cold_share:
            system, asked = new + text(shape.cold_tokens, chance.randrange(10**6)), "Why?"
        else:
            number = chance.randrange(shape.live_prefixes)
            system = text(shape.live_prefix_tokens, number)
            asked = new + text(shape.live_new_tokens, chance.randrange(10**6))
        body = _body(system, asked, shape.live_answer_tokens) | {"stream": True}
        made.append(Live(at_s=at_s, body=json.dumps(body).encode()))
        at_s += chance.expovariate(shape.rate)
    return made


def warm_bodies(shape: Shape, text: Callable[[int, int], str]) -> Iterator[bytes]:
    """What live conversations have had before."""
    for number in range(shape.live_prefixes):
        yield json.dumps(_body(text(shape.live_prefix_tokens, number), "Hello?", 1)).encode()


def batch_file(shape: Shape, *, seed: int, text: Callable[[int, int], str]) -> bytes:
    """A batch's lines, in no order."""
    lines = []
    for number in range(shape.lines):
        system = text(shape.batch_prefix_tokens, 10**7 + 100 * seed + number % shape.batch_prefixes)
        asked = f"{seed} {number} " + text(shape.line_tokens, 10**8 + number)
        lines.append(
            json.dumps({
                "custom_id": f"{number}",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": _body(system, asked, shape.line_answer_tokens),
            })
        )  # fmt: skip
    random.Random(seed).shuffle(lines)
    return "\n".join(lines).encode()


def texts(characters_a_token: float) -> Callable[[int, int], str]:
    """Gives words of about so many tokens, told apart by a number."""

    def text(tokens: int, number: int) -> str:
        length = int(tokens * characters_a_token)
        return sentences(random.Random(number), length)

    return text


def _body(system: str, asked: str, answer_tokens: int) -> dict[str, object]:
    return {
        "model": "default",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": asked}],
        "max_tokens": answer_tokens,
    }
