"""A rendered prompt as people and programs see it. Pure: text in, text out."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import click

from app.commands.token_text import printable
from prompts import Message, Prompt, RenderedSegment, SegmentTokens, TokenizedPrompt, Volatility
from prompts.lint.visible import visible

_JSON_SCHEMA_VERSION = 1
_COLOURS = {
    Volatility.STATIC: "green",
    Volatility.TENANT: "cyan",
    Volatility.COLLECTION: "blue",
    Volatility.SESSION: "yellow",
    Volatility.TURN: "magenta",
}
_TEMPLATES_OWN = "bright_black"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is shown of a prompt; `token_texts` is None unless tokens are to be shown one by one."""

    prompt: Prompt
    tokenized: TokenizedPrompt | None = None
    token_texts: Sequence[str] | None = None
    placeholders: tuple[str, ...] = ()


def text_view(view: View) -> str:
    """For people: each segment in the colour of its volatility."""
    return "\n".join([_title(view), *_tool_lines(view.prompt), *_segment_lines(view)])


def json_view(view: View) -> str:
    """For programs; what isn't known is null."""
    prompt, tokenized = view.prompt, view.tokenized
    ids = None if tokenized is None else tokenized.token_ids
    shown = {
        "schema_version": _JSON_SCHEMA_VERSION,
        "template": prompt.template,
        "fingerprint": prompt.fingerprint,
        "tokens": None if ids is None else len(ids),
        "placeholders": list(view.placeholders),
        "tools": [{"name": tool.name, "json": tool.json} for tool in prompt.tools],
        "segments": [_segment_json(*pair) for pair in _with_ranges(view)],
    }
    if ids is not None and view.token_texts is not None:
        pairs = zip(ids, view.token_texts, strict=True)
        shown["token_ids"] = [{"id": token_id, "text": printable(text)} for token_id, text in pairs]
    return json.dumps(shown, indent=1, ensure_ascii=False)


def quoted(text: str) -> str:
    """The text on one line, in quotes, so that spaces at its ends show."""
    inside = printable(text)
    # The closing quote keeps a space at the end from being spelled out.
    return '"' + visible(inside + '"')


def _title(view: View) -> str:
    prompt = view.prompt
    counted = ""
    if view.tokenized is not None:
        counted = f" · {_tokens(len(view.tokenized.token_ids))}"
    title = f"{prompt.template} · fingerprint {prompt.fingerprint}{counted}"
    return click.style(title, bold=True)


def _tool_lines(prompt: Prompt) -> Iterator[str]:
    if prompt.tools:
        bar = _bar(_COLOURS[prompt.tools_volatility])
        level = prompt.tools_volatility.label
        yield f"\n{bar('▌')} {click.style('tools', bold=True)} · {level}"
        yield from (f"{bar('│')} {visible(tool.json)}" for tool in prompt.tools)


def _segment_lines(view: View) -> Iterator[str]:
    position = 0
    for segment, tokens in _with_ranges(view):
        if tokens is not None:
            yield from _own_tokens(view, position, tokens.start)
            position = tokens.stop
        colour = _COLOURS[segment.volatility]
        yield _heading(segment, tokens, colour)
        bar = _bar(colour)
        if tokens is not None and view.token_texts is not None:
            yield from _token_lines(view, tokens.start, tokens.stop, colour)
        else:
            yield from (f"{bar('│')} {line}" for line in _content_lines(segment))
    if view.tokenized is not None:
        yield from _own_tokens(view, position, len(view.tokenized.token_ids))


def _with_ranges(view: View) -> Iterator[tuple[RenderedSegment, SegmentTokens | None]]:
    if view.tokenized is None:
        yield from ((segment, None) for segment in view.prompt.segments)
    else:
        yield from ((tokens.segment, tokens) for tokens in view.tokenized.ranges)


def _heading(segment: RenderedSegment, tokens: SegmentTokens | None, colour: str) -> str:
    facts = [segment.role or "messages", segment.volatility.label]
    if tokens is not None:
        facts.append(_range(tokens.start, tokens.stop))
    name = click.style(segment.id, bold=True, fg=colour)
    return f"\n{_bar(colour)('▌')} {name} · {' · '.join(facts)}"


def _content_lines(segment: RenderedSegment) -> Iterator[str]:
    if segment.expanded:
        for message in segment.expanded:
            yield click.style(f"{message.role}:", dim=True)
            yield from _message_lines(message)
    else:
        yield from map(visible, segment.text.split("\n"))


def _message_lines(message: Message) -> Iterator[str]:
    if message.reasoning is not None:
        lines = message.reasoning.split("\n")
        yield from (f"  (reasoning) {visible(line)}" for line in lines)
    if message.content:
        yield from (f"  {visible(line)}" for line in message.content.split("\n"))
    for call in message.tool_calls:
        yield f"  (calls {visible(call.name)}) {visible(call.arguments)}"


def _own_tokens(view: View, start: int, stop: int) -> Iterator[str]:
    """The chat template's own tokens between two segments."""
    if start < stop:
        yield click.style(f"\n┄ chat template · {_range(start, stop)}", fg=_TEMPLATES_OWN)
        if view.token_texts is not None:
            yield from _token_lines(view, start, stop, _TEMPLATES_OWN)


def _token_lines(view: View, start: int, stop: int, colour: str) -> Iterator[str]:
    assert view.tokenized is not None
    assert view.token_texts is not None
    bar = _bar(colour)
    for index in range(start, stop):
        token_id, text = view.tokenized.token_ids[index], view.token_texts[index]
        yield f"{bar('│')} {index:>6} {token_id:>7}  {quoted(text)}"


def _range(start: int, stop: int) -> str:
    return f"{_tokens(stop - start)} [{start:,}, {stop:,})"


def _tokens(count: int) -> str:
    return f"{count:,} token{'' if count == 1 else 's'}"


def _bar(colour: str) -> Callable[[str], str]:
    return lambda text: click.style(text, fg=colour)


def _segment_json(segment: RenderedSegment, tokens: SegmentTokens | None) -> dict[str, object]:
    return {
        "id": segment.id,
        "role": segment.role or None,
        "volatility": segment.volatility.label,
        "text": None if segment.expanded else segment.text,
        "messages": [_message_json(message) for message in segment.expanded] or None,
        "tokens": None if tokens is None else tokens.stop - tokens.start,
        "start": None if tokens is None else tokens.start,
        "stop": None if tokens is None else tokens.stop,
    }


def _message_json(message: Message) -> dict[str, object]:
    calls = [
        {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    fields = {
        "role": message.role,
        "content": message.content,
        "reasoning_content": message.reasoning,
        "tool_calls": calls or None,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
    }
    return {name: value for name, value in fields.items() if value is not None}
