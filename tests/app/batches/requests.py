"""Files of requests, and batches of them through the unmodified OpenAI SDK."""

import time
from collections.abc import Sequence
from typing import Any, Literal

import openai
import orjson
from openai.types import Batch

ENDED = ("completed", "failed", "expired", "cancelled")
CHAT: Literal["/v1/chat/completions"] = "/v1/chat/completions"


def chat_line(custom_id: str, text: str, *, system: str = "Be brief.", **more: Any) -> bytes:
    body = {
        "model": "default",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": text}],
        "max_tokens": 4,
        **more,
    }
    return line(custom_id, CHAT, body)


def line(custom_id: str, url: str, body: dict[str, Any]) -> bytes:
    given = {"custom_id": custom_id, "method": "POST", "url": url, "body": body}
    return orjson.dumps(given) + b"\n"


def upload(client: openai.OpenAI, lines: Sequence[bytes]) -> str:
    data = b"".join(lines)
    return client.files.create(file=("requests.jsonl", data), purpose="batch").id


def run(client: openai.OpenAI, lines: Sequence[bytes], endpoint: Any = CHAT, **more: Any) -> Batch:
    made = client.batches.create(
        input_file_id=upload(client, lines), endpoint=endpoint, completion_window="24h", **more
    )
    return ended(client, made.id)


def ended(client: openai.OpenAI, batch_id: str, *, within_s: float = 60.0) -> Batch:
    deadline = time.monotonic() + within_s
    while (batch := client.batches.retrieve(batch_id)).status not in ENDED:
        assert time.monotonic() < deadline, f"the batch is still {batch.status}"
        time.sleep(0.05)
    return batch


def read(client: openai.OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    return [orjson.loads(one) for one in client.files.content(file_id).read().splitlines()]
