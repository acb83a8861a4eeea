"""A model's own chat template, rendered as transformers and SGLang render it.

Beside the text, `pieces` tells which parts are the template's own and which are message contents:
the first may spell special tokens, the second never may.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from prompts.errors import ChatTemplateError
from prompts.segments import Message

# A private-use pair that no sane template transforms; the number between says which message.
_MARK = "\ue0f0{}\ue0f1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of the rendered text; `message` is the index of the message whose content it is."""

    text: str
    message: int | None = None


class ChatTemplate:
    """A compiled chat template with the special tokens it may name."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """Raises ChatTemplateError: not valid Jinja, or it reads the clock."""
        self._special_tokens = dict(special_tokens)
        environment = _environment()
        try:
            self._code = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ChatTemplateError(f"line {error.lineno}: {error.message}") from error

    def render(self, messages: Sequence[Message]) -> str:
        """The text of the messages with the opening of the answer at its end."""
        plain = [{"role": m.role, "content": m.content} for m in messages]
        try:
            return self._code.render(
                messages=plain, add_generation_prompt=True, **self._special_tokens
            )
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise ChatTemplateError(str(error)) from error

    def pieces(self, messages: Sequence[Message]) -> list[Piece]:
        """The rendered text, cut into the template's own parts and the messages' contents.

        Joined, the pieces are exactly `render(messages)`.

        Raises:
            ChatTemplateError: the template repeats, drops, moves or transforms a content, so that
                the parts can't be told from each other.
        """
        marks = [_MARK.format(index) for index in range(len(messages))]
        marked = self.render(
            [Message(role=m.role, content=mark) for m, mark in zip(messages, marks, strict=True)]
        )
        pieces: list[Piece] = []
        rest = marked
        for index, (message, mark) in enumerate(zip(messages, marks, strict=True)):
            before, found, rest = rest.partition(mark)
            if not found:
                raise ChatTemplateError(f"it drops or moves message {index} ({message.role})")
            pieces += [Piece(text=before), Piece(text=message.content, message=index)]
        pieces.append(Piece(text=rest))
        text = "".join(piece.text for piece in pieces)
        if text != self.render(messages):
            raise ChatTemplateError("it changes the text of messages")
        return [piece for piece in pieces if piece.text]


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    """Source: transformers 5.19 utils/chat_template_utils.py `_compile_jinja_template`."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _no_clock
    return environment


class _Generation(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}` marks training text; served, it is its body."""

    tags = {"generation"}  # noqa: RUF012 (Jinja declares it as a plain set)

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _no_clock(_format: str) -> NoReturn:
    raise jinja2.TemplateError("it puts today's date into the prompt (strftime_now)")
