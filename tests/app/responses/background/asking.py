"""Responses of the background through the unmodified OpenAI SDK."""

import time
from collections.abc import Callable

import httpx
import openai
from openai.types.responses import Response

UNDER_WAY = ("queued", "in_progress")


def asked(client: openai.OpenAI, text: str = "Why?", *, tokens: int = 16, **more: object) -> str:
    """The id of a response that is made in the background."""
    given = {"model": "default", "input": text, "max_output_tokens": tokens, **more}
    return str(client.responses.create(background=True, **given).id)  # type: ignore[call-overload]


def ended(client: openai.OpenAI, response_id: str) -> Response:
    """The response once it has ended."""
    return once(client, response_id, lambda response: response.status not in UNDER_WAY)


def once(client: openai.OpenAI, response_id: str, holds: Callable[[Response], bool]) -> Response:
    """The response once something holds of it."""
    deadline = time.monotonic() + 120
    while not holds(response := client.responses.retrieve(response_id)):
        assert time.monotonic() < deadline, f"the response is still {response.status}"
        time.sleep(0.05)
    return response


def wait_until_idle(engine_url: str, *, within_s: float = 60.0) -> None:
    """Until a simulated engine computes nothing any more."""
    deadline = time.monotonic() + within_s
    while True:
        loads = httpx.get(f"{engine_url}/v1/loads", trust_env=False).json()["loads"]
        if not sum(each["num_running_reqs"] for each in loads):
            return
        assert time.monotonic() < deadline, "the engine still computes"
        time.sleep(0.05)
