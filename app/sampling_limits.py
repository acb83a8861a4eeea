"""Bounds on sampling fields: a value that the engine takes and then dies of harms every tenant.

SGLang checks some of them when a request comes in, and others only in the scheduler, where an error
ends the process: a token id beyond the vocabulary among `stop_token_ids`, more `top_logprobs` than
tokens, a `top_k` or `min_tokens` that is no 32-bit number, an infinite bias.

Source: SGLang 0.5.23 srt/sampling/sampling_params.py (`verify`), penaltylib/min_new_tokens.py,
sampling_batch_info.py; OpenAI's bounds where it documents one.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from app.errors import InvalidRequestError
from prompts import PromptTokenizer

MAX_COPIES = 128
MAX_TOP_LOGPROBS = 20
INT32 = 2**31 - 1
INT64 = 2**63
_ID_DIGITS = 10
MAX_BIAS = 100.0
MAX_BIASED = 4096
MAX_STOPS = 32
MAX_STOP = 1024
MAX_STOP_IDS = 256
MAX_REGEX = 4096
MAX_GRAMMAR = 2**16
MAX_TEMPERATURE = 100.0
FORMATS = ("text", "json_object", "json_schema", "structural_tag")
MAX_NAME = 4096


class _OutOfBoundsError(ValueError):
    """What a field must be."""


@dataclass(frozen=True, slots=True)
class _Integer:
    """A whole number, and no truth value."""

    least: int
    most: int

    def __call__(self, value: object) -> None:
        if type(value) is not int or not self.least <= value <= self.most:
            raise _OutOfBoundsError(f"a whole number from {self.least:,} to {self.most:,}")


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of bounded length."""

    longest: int

    def __call__(self, value: object) -> None:
        if not isinstance(value, str) or len(value) > self.longest:
            raise _OutOfBoundsError(f"a text of at most {self.longest:,} characters")


@dataclass(frozen=True, slots=True)
class _Number:
    """A finite number; its least is out of bounds itself where it is `above`."""

    least: float
    most: float
    above: bool = False

    def __call__(self, value: object) -> None:
        if (
            not _is_number(value)
            or not self.least <= value <= self.most  # type: ignore[operator]
            or (self.above and value == self.least)
        ):
            bounds = "above {} up to {}" if self.above else "from {} to {}"
            raise _OutOfBoundsError(
                f"a number {bounds.format(f'{self.least:g}', f'{self.most:g}')}"
            )


def check_sampling(extras: Mapping[str, object], tokenizer: PromptTokenizer | None) -> None:
    """Refuse what the engine must not be asked. Null is "not given", as for OpenAI.

    Args:
        extras: the request's fields beyond those that have a type.
        tokenizer: knows the model's tokens; without it ids can't be checked, and are refused.

    Raises:
        InvalidRequestError: names the first field that is out of bounds, and its bounds.
    """
    for name, value in extras.items():
        if value is None:
            continue
        if name in _TOKEN_CHECKS:
            try:
                _TOKEN_CHECKS[name](value, tokenizer)
            except _OutOfBoundsError as error:
                raise InvalidRequestError(f"{name}: must be {error}", param=name) from error
        else:
            check_field(name, value)


def check_field(name: str, value: object) -> None:
    """Refuse a value that one of OpenAI's or SGLang's fields can't have; others have any.

    Raises:
        InvalidRequestError: names the field and its bounds.
    """
    try:
        if name in _CHECKS:
            _CHECKS[name](value)
    except _OutOfBoundsError as error:
        raise InvalidRequestError(f"{name}: must be {error}", param=name) from error


def _flag(value: object) -> None:
    if type(value) is not bool:
        raise _OutOfBoundsError("true or false")


def _top_k(value: object) -> None:
    if type(value) is not int or (value != -1 and not 1 <= value <= INT32 // 2):
        raise _OutOfBoundsError(f"-1 or a whole number from 1 to {INT32 // 2:,}")


def _metadata(value: object) -> None:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise _OutOfBoundsError("an object of texts")


def _object(value: object) -> None:
    if not isinstance(value, dict):
        raise _OutOfBoundsError("an object")


def _stop(value: object) -> None:
    stops = [value] if isinstance(value, str) else value
    if (
        not isinstance(stops, list)
        or len(stops) > MAX_STOPS
        or not all(isinstance(stop, str) and len(stop) <= MAX_STOP for stop in stops)
    ):
        raise _OutOfBoundsError(
            f"a text or a list of at most {MAX_STOPS} texts, of {MAX_STOP:,} characters each"
        )


def _response_format(value: object) -> None:
    if not isinstance(value, dict) or len(orjson.dumps(value)) > MAX_GRAMMAR:
        raise _OutOfBoundsError(f"an object of at most {MAX_GRAMMAR:,} bytes")
    if value.get("type") not in FORMATS:
        raise _OutOfBoundsError(f"of one of these types: {', '.join(FORMATS)}")
    if value["type"] == "json_schema" and not _is_schema(value):
        raise _OutOfBoundsError(
            "an object with json_schema, which has a name and a schema, and strict as true or false"
        )


def _is_schema(given: Mapping[str, object]) -> bool:
    """Whether an answer can be held to it. SGLang also takes a schema without a name."""
    match given.get("json_schema"):
        case None:
            return isinstance(given.get("schema"), dict)
        case {"name": str(), "schema": dict(), **further}:
            return further.get("strict") is None or type(further["strict"]) is bool
        case _:
            return False


def _logit_bias(value: object, tokenizer: PromptTokenizer | None) -> None:
    if (
        not isinstance(value, dict)
        or len(value) > MAX_BIASED
        or not all(_is_number(bias) and abs(bias) <= MAX_BIAS for bias in value.values())
    ):
        raise _OutOfBoundsError(
            f"an object of at most {MAX_BIASED:,} token ids, each with a number from "
            f"-{MAX_BIAS:g} to {MAX_BIAS:g}"
        )
    for key in value:
        is_id = len(key) <= _ID_DIGITS and key.isascii() and key.isdecimal()
        _check_token(int(key) if is_id else key, tokenizer)


def _stop_token_ids(value: object, tokenizer: PromptTokenizer | None) -> None:
    if not isinstance(value, list) or len(value) > MAX_STOP_IDS:
        raise _OutOfBoundsError(f"a list of at most {MAX_STOP_IDS} token ids")
    for token in value:
        _check_token(token, tokenizer)


def _check_token(token: object, tokenizer: PromptTokenizer | None) -> None:
    if tokenizer is None:
        raise _OutOfBoundsError("left out: this model's token ids can't be checked here")
    if type(token) is not int or not 0 <= token <= INT32 or tokenizer.spelling(token) is None:
        raise _OutOfBoundsError(f"of the model's vocabulary, which has no token {str(token)[:40]}")


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


_TOKEN_CHECKS: Mapping[str, Callable[[object, PromptTokenizer | None], None]] = {
    "logit_bias": _logit_bias,
    "stop_token_ids": _stop_token_ids,
}
_CHECKS: Mapping[str, Callable[[object], None]] = {
    "n": _Integer(1, MAX_COPIES),
    "top_logprobs": _Integer(0, MAX_TOP_LOGPROBS),
    "top_k": _top_k,
    "min_tokens": _Integer(0, INT32),
    "seed": _Integer(-INT64, INT64 - 1),
    "frequency_penalty": _Number(-2, 2),
    "presence_penalty": _Number(-2, 2),
    "repetition_penalty": _Number(0, 2, above=True),
    "temperature": _Number(0, MAX_TEMPERATURE),
    "top_p": _Number(0, 1, above=True),
    "min_p": _Number(0, 1),
    "ignore_eos": _flag,
    "logprobs": _flag,
    "parallel_tool_calls": _flag,
    "stop": _stop,
    "regex": _Text(MAX_REGEX),
    "ebnf": _Text(MAX_GRAMMAR),
    "response_format": _response_format,
    # What is taken for nothing is of the kinds that OpenAI's API says, all the same.
    "max_tool_calls": _Integer(0, INT32),
    "metadata": _metadata,
    "prompt_cache_key": _Text(MAX_NAME),
    "prompt_cache_options": _object,
    "prompt_cache_retention": _Text(MAX_NAME),
    "safety_identifier": _Text(MAX_NAME),
    "service_tier": _Text(MAX_NAME),
    "store": _flag,
    "user": _Text(MAX_NAME),
}
