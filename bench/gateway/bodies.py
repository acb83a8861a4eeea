"""The requests: conversations under long instructions, each with a question that nobody asked."""

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

from bench.micro.words import sentences

# Sixteen digits in the question are set anew for every request.
COUNTER = "0123456789012345"
_CONVERSATIONS = 32
_QUESTIONS = 8
_QUESTION_CHARACTERS = 120


def write_bodies(path: Path, *, body_bytes: int, stream: bool) -> None:
    """Records of two little-endian 32-bit numbers (length, where the digits are) and a body.

    All but the question, fewer than 200 bytes, is the same in many requests.
    """
    with path.open("wb") as file:
        for body in _bodies(body_bytes, stream=stream):
            file.write(struct.pack("<II", len(body), body.index(COUNTER.encode())) + body)


def _bodies(body_bytes: int, *, stream: bool) -> Iterator[bytes]:
    words = random.Random(7)
    instructions = sentences(words, body_bytes * 2 // 3)
    for number in range(_CONVERSATIONS * _QUESTIONS):
        chosen = random.Random(number % _CONVERSATIONS)
        question = f"{COUNTER} {sentences(words, _QUESTION_CHARACTERS)}?"
        body = _body(instructions, "", question, stream=stream)
        said = sentences(chosen, max(40, body_bytes - len(body) - 120))
        yield _body(instructions, said, question, stream=stream)


def _body(instructions: str, said: str, question: str, *, stream: bool) -> bytes:
    half = len(said) // 2
    earlier = [
        {"role": "user", "content": said[:half]},
        {"role": "assistant", "content": said[half:]},
    ]
    body = {
        "model": "bench",
        "messages": [
            {"role": "system", "content": instructions},
            *(earlier if said else []),
            {"role": "user", "content": question},
        ],
        "max_tokens": 50,
        "temperature": 0,
        "stream": stream,
    }
    return json.dumps(body).encode()
