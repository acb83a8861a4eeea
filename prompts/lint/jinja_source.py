"""Jinja text to a syntax tree whose nodes know their character, not only their line.

The linter's environment is lenient: it parses what other people's environments parse (loop
controls, `do`, `trans`, `generation` of chat templates, `message` and `chat` blocks, `now`).
Nothing is ever compiled or run.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import jinja2
import jinja2.ext
import jinja2.lexer
import jinja2.nodes
import jinja2.parser

_OPENING = frozenset({"variable_begin", "block_begin", "comment_begin", "raw_begin"})
_CLOSING = frozenset({"variable_end", "block_end", "comment_end", "raw_end"})


class PromptSyntaxError(Exception):
    """The text is not Jinja; `offset` is the character where that shows.

    `unknown_tag`: it may be Jinja with an extension that isn't known here.
    """

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(offset, problem)
        self.offset = offset
        self.problem = problem
        self.unknown_tag = problem.startswith("Encountered unknown tag")

    def __str__(self) -> str:
        if self.unknown_tag:
            return f"the file can't be checked: {self.problem}"
        return f"not valid Jinja: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A `{# … #}` comment: its characters and the text between the marks."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JinjaSource:
    """A parsed text. In `tree`, every node's `lineno` is the offset of one of its characters.

    `tag_starts` and `tag_stops` are where `{{ … }}` and `{% … %}` begin and end, in order.
    """

    text: str
    tree: jinja2.nodes.Template
    tag_starts: list[int]
    tag_stops: list[int]
    comments: tuple[Comment, ...]

    def tag(self, offset: int) -> tuple[int, int]:
        """The characters of the tag that an offset lies in; the offset's own where in none."""
        index = bisect_right(self.tag_starts, offset) - 1
        if index < 0 or self.tag_stops[index] <= offset:
            return offset, offset + 1
        return self.tag_starts[index], self.tag_stops[index]

    def label(self, offset: int) -> str:
        """The tag an offset lies in, as it is written, shortened for a message."""
        start, stop = self.tag(offset)
        words = " ".join(self.text[start:stop].split())
        return words if len(words) <= 60 else f"{words[:57]}…"


@dataclass(slots=True)
class _Lexed:
    """Tags and comments met while one text was being lexed."""

    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)


class JinjaReader:
    """Parses prompt text; made once and used for many files, it keeps nothing of them."""

    def __init__(self) -> None:
        self._environment = jinja2.Environment(
            keep_trailing_newline=True,
            extensions=[jinja2.ext.loopcontrols, jinja2.ext.do, jinja2.ext.i18n, _ForeignTags],
        )

    def read(self, text: str) -> JinjaSource:
        """The tree of a text with LF line ends.

        Raises:
            PromptSyntaxError: it isn't valid Jinja.
        """
        lexed = _Lexed()
        try:
            tree = _Parser(self._environment, text, lexed).parse()
        except jinja2.TemplateSyntaxError as error:
            offset = min(error.lineno, max(len(text) - 1, 0))
            raise PromptSyntaxError(offset, error.message or "it can't be parsed") from error
        except RecursionError as error:
            raise PromptSyntaxError(0, "it is nested too deeply") from error
        return JinjaSource(
            text=text,
            tree=tree,
            tag_starts=lexed.starts,
            tag_stops=lexed.stops,
            comments=tuple(lexed.comments),
        )


class _Parser(jinja2.parser.Parser):
    """Jinja's parser over tokens whose line number is their offset instead."""

    def __init__(self, environment: jinja2.Environment, text: str, lexed: _Lexed) -> None:
        super().__init__(environment, "")
        tokens = _offset_tokens(environment.lexer, text, lexed)
        self.stream = jinja2.lexer.TokenStream(environment.lexer.wrap(tokens), None, None)


def _offset_tokens(
    lexer: jinja2.lexer.Lexer, text: str, lexed: _Lexed
) -> Iterator[tuple[int, str, str]]:
    """Jinja's raw tokens with their offset in the place of the line.

    Whitespace control leaves text out only in front of a mark, and then only whitespace, so that
    the next token's characters are the first such ones behind.
    """
    position, opened, comment = 0, 0, ""
    tokens = lexer.tokeniter(text, None)
    while True:
        try:
            _, token, value = next(tokens)
        except StopIteration:
            return
        except jinja2.TemplateSyntaxError as error:
            problem = error.message or "it can't be read"
            raise jinja2.TemplateSyntaxError(problem, position) from error
        start = text.find(value, position)
        position = start + len(value)
        if token in _OPENING:
            opened = start
        elif token in _CLOSING:
            stop = start + len(value.rstrip())
            if token == "comment_end":
                lexed.comments.append(Comment(start=opened, stop=stop, text=comment))
            else:
                lexed.starts.append(opened)
                lexed.stops.append(stop)
        elif token == "comment":
            comment = value
        yield start, token, value


class _ForeignTags(jinja2.ext.Extension):
    """Tags of other people's environments, kept as plain scopes and outputs.

    `{% message role="user" %}` and `{% chat role="user" %}` (Haystack, Banks) become a call block
    whose call names the role; `{% generation %}` (transformers) becomes its body; `{% now … %}`
    (jinja2-time) becomes a call of `now`.
    """

    tags = {"message", "chat", "generation", "now"}  # noqa: RUF012 (Jinja declares a plain set)

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node | list[jinja2.nodes.Node]:
        tag = next(parser.stream)
        call = jinja2.nodes.Call(
            jinja2.nodes.Name(tag.value, "load", lineno=tag.lineno),
            [], [], None, None, lineno=tag.lineno,
        )  # fmt: skip
        if tag.value == "now":
            self._arguments(parser, call)
            return jinja2.nodes.Output([call], lineno=tag.lineno)
        self._arguments(parser, call)
        body = parser.parse_statements((f"name:end{tag.value}",), drop_needle=True)
        if tag.value == "generation":
            return body
        return jinja2.nodes.CallBlock(call, [], [], body, lineno=tag.lineno)

    def _arguments(self, parser: jinja2.parser.Parser, call: jinja2.nodes.Call) -> None:
        stream = parser.stream
        while stream.current.type != "block_end":
            if stream.current.type == "name" and stream.look().type == "assign":
                name = next(stream)
                next(stream)
                value = parser.parse_expression()
                call.kwargs.append(jinja2.nodes.Keyword(name.value, value, lineno=name.lineno))
            else:
                call.args.append(parser.parse_expression())
            stream.skip_if("comma")
