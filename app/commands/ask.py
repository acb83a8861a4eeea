"""`foreword ask COLLECTION QUESTION`: an answer from documents, with what was re-used."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import httpx

from app.commands.attribute_values import filter_of
from app.commands.gateway import (
    GatewayAnswerError,
    Told,
    checked,
    error_message,
    gateway,
    gateway_options,
)
from app.sse import DONE, EventReader

_TIERS = (("gpu", "GPU"), ("ram", "RAM"), ("ssd", "SSD"), ("redis", "Redis"))


@click.command()
@click.argument("collection", type=Told())
@click.argument("question", type=Told())
@click.option(
    "--mode",
    type=click.Choice(["auto", "rag", "cag", "hybrid"]),
    help="rag: the passages that fit the question; cag: the whole collection first; hybrid: a core "
    "of it and passages; auto: what costs less. By default what the collection is pinned to, else "
    "auto",
)
@click.option(
    "--filter",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="only files with such an attribute, like year>=2020, or OpenAI's filter as JSON; several "
    "must all hold",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    help="a group that the asker belongs to; as often as needed",
)
@click.option("--max-tokens", type=click.IntRange(1), default=80, show_default=True)
@click.option("--model", default="default", show_default=True)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
@gateway_options
def ask(
    collection: str,
    question: str,
    mode: str | None,
    conditions: tuple[str, ...],
    groups: tuple[str, ...],
    max_tokens: int,
    model: str,
    output: str,
    url: str | None,
    home: Path,
) -> None:
    """Ask QUESTION of the documents in COLLECTION.

    The answer streams to stdout, its sources after it; the last line says how many tokens of the
    prompt the engine already held.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_tokens": max_tokens,
        "foreword": _options(collection, mode, filter_of(conditions), groups),
    }
    answer: list[str] = []
    block: dict[str, Any] = {}
    with gateway(url, home) as client:
        for chunk in _chunks(client, body):
            block = chunk.get("foreword") or block
            text = _content(chunk)
            answer.append(text)
            if output == "text":
                click.echo(text, nl=False)
    if output == "json":
        result = {"schema_version": 1, "answer": "".join(answer), "foreword": block}
        click.echo(json.dumps(result, ensure_ascii=False))
        return
    click.echo("\n")
    for line in _sources(block):
        click.echo(line)
    click.echo(reuse_line(block))


def _options(
    collection: str, mode: str | None, filters: Mapping[str, Any] | None, groups: Sequence[str]
) -> dict[str, Any]:
    options: dict[str, Any] = {"collection": collection}
    given = {"mode": mode, "filters": filters, "groups": list(groups)}
    return options | {name: value for name, value in given.items() if value}


def reuse_line(block: dict[str, Any]) -> str:
    """One line: tokens re-used of the prompt's, by tier, the time to the first token, the mode."""
    prompt, cached = block.get("prompt_tokens"), block.get("cached_tokens")
    ttft = block.get("ttft_s")
    time = "unknown" if ttft is None else f"{ttft:.2f} s"
    if prompt is None or cached is None:
        head = f"re-used: unknown of {_number(prompt)} prompt tokens"
        return f"{head} · first token after {time} · {_mode(block)}"
    tiers = _by_tier(block.get("cached_by_tier") or {})
    share = f"{100 * cached / prompt:.1f} %" if prompt else "0 %"
    head = f"re-used {cached:,} of {prompt:,} prompt tokens ({share}){tiers}"
    return f"{head} · first token after {time} · {_mode(block)}"


def _mode(block: dict[str, Any]) -> str:
    reason = block.get("mode_reason")
    return f"{block.get('mode')} ({reason})" if reason else str(block.get("mode"))


def _by_tier(tiers: dict[str, int | None]) -> str:
    parts = [f"{label} {tiers[name]:,}" for name, label in _TIERS if tiers.get(name)]
    split_known = any(tiers.get(name) is not None for name in ("ram", "ssd", "redis"))
    if tiers.get("storage") and not split_known:
        parts.append(f"LMCache {tiers['storage']:,}")
    return f": {', '.join(parts)}" if parts else ""


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _sources(block: dict[str, Any]) -> Iterator[str]:
    for number, citation in enumerate(block.get("citations") or [], start=1):
        page = f", page {citation['page']}" if citation.get("page") else ""
        heading = f" ({citation['heading']})" if citation.get("heading") else ""
        yield f"  [{number}] {citation['document']}{page}{heading}: “{citation['text']}”"
    if not block.get("citations"):
        yield "  (the answer rests on none of the documents; take it with care)"


def _content(chunk: dict[str, Any]) -> str:
    choices = chunk.get("choices") or []
    return (choices[0].get("delta") or {}).get("content") or "" if choices else ""


def _chunks(client: httpx.Client, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        checked(response)
        reader = EventReader()
        for data in response.iter_bytes():
            for item in reader.feed(data):
                if item == DONE:
                    return
                chunk = json.loads(item)
                if "error" in chunk:
                    raise GatewayAnswerError(error_message(item.decode(), 500))
                yield chunk
    raise GatewayAnswerError("the answer broke off before its end; ask again")
