"""The model folder's tokenizer and chat template, used as the engine itself uses them.

Unlike Foreword's own rendering, text that spells a special token becomes that token here: this is
the other side that the gateway's parity check compares itself with.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.sandbox
import tokenizers

from bench.errors import ModelFolderError

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")
_WORD = re.compile(r" ?[A-Za-z]+")


class ChatTemplateRefusedError(ValueError):
    """The chat template refused the messages; the sentence is the template's own."""


class ModelText:
    """Text to ids and back for one model folder. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Raises ModelFolderError: the tokenizer or the chat template is missing."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ModelFolderError(folder, "tokenizer.json")
        config = _read_json(folder / "tokenizer_config.json")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._names = _named_tokens(config)
        self._template = _environment().from_string(_template_source(folder, config))
        self.max_length = int(config.get("model_max_length", -1))
        eos = self._names.get("eos_token")
        self.eos = self._tokenizer.token_to_id(eos) if eos else None
        self.vocabulary_size = self._tokenizer.get_vocab_size()

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    def render(self, messages: Sequence[Mapping[str, Any]], **variables: object) -> str:
        """The text of the messages; `variables` are the template's further inputs.

        Raises:
            ChatTemplateRefusedError: the template raised.
        """
        try:
            return self._template.render(messages=messages, **self._names, **variables)
        except jinja2.TemplateError as error:
            raise ChatTemplateRefusedError(str(error)) from error

    def words(self) -> tuple[int, ...]:
        """Tokens that are words of plain letters, so that any sequence of them is clean text."""
        size = self.vocabulary_size
        texts = self._tokenizer.decode_batch([[i] for i in range(size)])
        words = tuple(i for i, text in enumerate(texts) if _WORD.fullmatch(text))
        return words or tuple(i for i in range(size) if i != self.eos)


class TextStream:
    """An answer's text as its tokens come; holds back what may still change or must not be said.

    Attributes:
        text: the answer so far.
        sayable: how much of it may be said: not what may turn out to begin a stop string.
        matched: the stop string that ended the answer.
    """

    def __init__(self, model: ModelText, stops: Sequence[str] = ()) -> None:
        self.text = ""
        self.sayable = 0
        self.matched: str | None = None
        self._model = model
        self._stops = tuple(stops)
        self._ids: list[int] = []
        self._settled = 0

    def push(self, token: int) -> None:
        """Take the next token; sets `matched` and cuts the text when a stop string is complete."""
        self._ids.append(token)
        # Decoding with one settled token before keeps leading spaces as they are in the whole.
        before = self._model.decode(self._ids[self._settled - 1 : self._settled])
        fresh = self._model.decode(self._ids[max(0, self._settled - 1) :])[len(before) :]
        if fresh.endswith("\ufffd"):
            return
        self._settled = len(self._ids)
        self.text += fresh
        self.sayable = len(self.text) - self._may_begin_a_stop()
        found = [(self.text.find(stop), stop) for stop in self._stops if stop in self.text]
        if found:
            position, self.matched = min(found)
            self.text = self.text[:position]
            self.end()

    def end(self) -> None:
        """The answer is over: nothing is held back any more."""
        self.sayable = len(self.text)

    def _may_begin_a_stop(self) -> int:
        """Characters at the end of the text that are the beginning of a stop string."""
        longest = 0
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(self.text)), longest, -1):
                if self.text.endswith(stop[:length]):
                    longest = length
                    break
        return longest


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = json.loads(path.read_text("utf-8"))
    return content if isinstance(content, dict) else {}


def _named_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    named: dict[str, str] = {}
    for name in _NAMED_TOKENS:
        match config.get(name):
            case str() as token:
                named[name] = token
            case {"content": str() as token}:
                named[name] = token
    return named


def _template_source(folder: Path, config: Mapping[str, Any]) -> str:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text("utf-8")
    source = config.get("chat_template")
    if not isinstance(source, str):
        raise ModelFolderError(folder, "chat template")
    return source


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    """Source: transformers 5.19 utils/chat_template_utils.py _compile_jinja_template."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    return environment


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
