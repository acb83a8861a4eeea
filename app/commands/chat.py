"""`foreword chat [--agent NAME]`: a conversation with a model or an agent, line by line."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, TextIO

import click
import httpx

from app.commands.gateway import (
    GatewayAnswerError,
    checked,
    error_message,
    gateway,
    gateway_options,
)
from app.sse import EventReader

_LOOK_S = 0.5
_SHOWN_CHARACTERS = 200


@click.command()
@click.option("--agent", help="an agent to talk to; GET /foreword/agents lists them")
@click.option("--conversation", help="a stored conversation to go on with  [default: a new one]")
@click.option("--collection", help="documents that the agent's tools look into")
@click.option("--model", default="default", show_default=True, help="without an agent")
@click.option("--max-tokens", type=click.IntRange(1), help="most tokens of an answer")
@gateway_options
def chat(
    agent: str | None,
    conversation: str | None,
    collection: str | None,
    model: str,
    max_tokens: int | None,
    url: str | None,
    home: Path,
) -> None:
    """Talk to a model, or to an agent, one line of stdin at a time.

    Answers stream to stdout. Calls of tools, and after each answer what was re-used of its prompts,
    go to stderr. The conversation is stored: its id is told at the start.
    """
    if collection is not None and agent is None:
        raise click.UsageError("--collection is for an agent's tools; without one use `ask`")
    body: dict[str, Any] = {"model": f"agent:{agent}" if agent else model, "stream": True}
    if agent is not None:
        looks = {} if collection is None else {"collection": collection}
        body["foreword"] = {"sub_agents": True, **looks}
    if max_tokens is not None:
        body["max_output_tokens"] = max_tokens
    with gateway(url, home) as client:
        if conversation is not None:
            _aside(f"conversation {conversation}")
        for text in _lines(sys.stdin):
            if conversation is None:
                conversation = _first_turn(client, body | {"input": text})
            else:
                _turn(client, body | {"input": text, "conversation": conversation})


def _lines(source: TextIO) -> Iterator[str]:
    """What is typed or piped in, until its end; blank lines say nothing.

    Raises:
        GatewayAnswerError: a line isn't UTF-8.
    """
    is_typed = source.isatty()
    # Read as text, a bad byte would spoil the lines before it, or go on as half a surrogate pair.
    for number in count(1):
        if is_typed:
            click.echo("> ", nl=False, err=True)
        try:
            line = source.buffer.readline().decode()
        except UnicodeDecodeError as error:
            raise GatewayAnswerError(f"line {number} of stdin isn't UTF-8") from error
        if not line:
            return
        if line.strip():
            yield line.strip()


def _first_turn(client: httpx.Client, body: dict[str, Any]) -> str:
    """The id of a new conversation; none is left of a turn that is refused."""
    made = str(checked(client.post("/v1/conversations", json={})).json()["id"])
    events = _events(client, body | {"conversation": made})
    try:
        first = next(events)
    except BaseException:
        with suppress(httpx.HTTPError):
            client.delete(f"/v1/conversations/{made}")
        raise
    _aside(f"conversation {made}")
    _tell(client, chain([first], events))
    return made


def _turn(client: httpx.Client, body: dict[str, Any]) -> None:
    _tell(client, _events(client, body))


def _tell(client: httpx.Client, events: Iterable[dict[str, Any]]) -> None:
    response: dict[str, Any] = {}
    for event in events:
        response = event.get("response", response)
        _show(event)
    while waiting := _waiting(response):
        _decide(client, response["id"], waiting[0])
        response = _ended(client, response["id"])
        click.echo(_text(response), nl=False)
    click.echo()
    if response.get("status") == "failed":
        raise GatewayAnswerError(response["error"]["message"])
    block = response.get("foreword") or {}
    reason = (response.get("incomplete_details") or {}).get("reason")
    if reason := (block.get("agent") or {}).get("reason") or reason:
        _aside(f"it ended before its end: {reason}")
    _aside(reuse_line(block))


def _show(event: dict[str, Any]) -> None:
    match event:
        case {"type": "response.output_text.delta", "delta": str() as delta}:
            click.echo(delta, nl=False)
        case {"type": "foreword.sub_agent.event", "agent": str() as name, "event": dict() as said}:
            _show_call(said, f"{name} ")
        case _:
            _show_call(event)


def _show_call(event: dict[str, Any], whose: str = "") -> None:
    match event:
        case {
            "type": "response.output_item.done",
            "item": {"type": "function_call", "name": str() as name, "arguments": str() as given},
        }:
            _aside(f"{whose}→ {name} {_short(given)}")
        case {
            "type": "response.output_item.done",
            "item": {"type": "function_call_output", "output": str() as output},
        }:
            _aside(f"{whose}← {_short(output)}")


def _events(client: httpx.Client, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with client.stream("POST", "/v1/responses", json=body) as response:
        checked(response)
        reader = EventReader()
        for data in response.iter_bytes():
            for item in reader.feed(data):
                event = json.loads(item)
                if event.get("type") == "error":
                    raise GatewayAnswerError(error_message(json.dumps({"error": event}), 500))
                yield event


def _waiting(response: dict[str, Any]) -> list[dict[str, Any]]:
    agent = (response.get("foreword") or {}).get("agent") or {}
    return agent.get("waiting") or [] if response.get("status") == "in_progress" else []


def _decide(client: httpx.Client, run_id: str, call: dict[str, Any]) -> None:
    """Ask whoever is there about a call that may or may not have been made."""
    path = f"/foreword/agents/runs/{run_id}"
    said = f"{call['name']} {_short(call['arguments'])} was interrupted: nobody knows whether it "
    said += "was made"
    if not sys.stdin.isatty():
        raise GatewayAnswerError(f"{said}; POST {path}/decide says what is to be done")
    _aside(said)
    kinds = click.Choice(["retry", "skip", "cancel"])
    action = click.prompt("what now?", type=kinds, err=True)
    if action == "cancel":
        checked(client.post(f"{path}/cancel"))
        return
    decision = {"call_id": call["call_id"], "action": action}
    if action == "skip":
        text = click.prompt("its result, for the model", default="", show_default=False, err=True)
        decision |= {"output": text} if text else {}
    checked(client.post(f"{path}/decide", json=decision))


def _ended(client: httpx.Client, run_id: str) -> dict[str, Any]:
    """The response once nobody works on it: it has ended, or asks again."""
    while True:
        response: dict[str, Any] = checked(client.get(f"/v1/responses/{run_id}")).json()
        if response["status"] != "in_progress" or _waiting(response):
            return response
        time.sleep(_LOOK_S)


def _text(response: dict[str, Any]) -> str:
    texts = []
    for item in response.get("output") or ():
        if item["type"] == "message":
            texts = [part.get("text", "") for part in item["content"]]
    return "".join(texts)


def reuse_line(block: dict[str, Any]) -> str:
    """One line: how much of the prompts the engine held already."""
    prompt, cached = block.get("prompt_tokens"), block.get("cached_tokens")
    steps = len(block.get("steps") or ())
    behind = f", {steps} steps" if steps > 1 else ""
    if prompt is None or cached is None:
        return f"re-used: unknown{behind}"
    share = f"{100 * cached / prompt:.1f} %" if prompt else "0 %"
    return f"re-used {cached:,} of {prompt:,} prompt tokens ({share}){behind}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


def _aside(line: str) -> None:
    # What was said so far comes first, also where both go to one terminal.
    with suppress(BrokenPipeError):
        sys.stdout.flush()
    click.echo(line, err=True)
