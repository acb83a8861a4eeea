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
_MAX_BIAS = 100.0
_MAX_BIASED = 4096
MAX_STOPS = 32
MAX_STOP = 1024
MAX_STOP_IDS = 256
MAX_REGEX = 4096
MAX_GRAMMAR = 2**16
MAX_TEMPERATURE = 100.0


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
        try:
            if name in _TOKEN_CHECKS:
                _TOKEN_CHECKS[name](value, tokenizer)
            elif name in _CHECKS:
                _CHECKS[name](value)
        except _OutOfBoundsError as error:
            raise InvalidRequestError(f"{name}: must be {error}", param=name) from error


def _temperature(value: object) -> None:
    if not _is_number(value) or not 0 <= value <= MAX_TEMPERATURE:  # type: ignore[operator]
        raise _OutOfBoundsError(f"a number from 0 to {MAX_TEMPERATURE:g}")


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


def _logit_bias(value: object, tokenizer: PromptTokenizer | None) -> None:
    if (
        not isinstance(value, dict)
        or len(value) > _MAX_BIASED
        or not all(_is_number(bias) and abs(bias) <= _MAX_BIAS for bias in value.values())
    ):
        raise _OutOfBoundsError(
            f"an object of at most {_MAX_BIASED:,} token ids, each with a number from "
            f"-{_MAX_BIAS:g} to {_MAX_BIAS:g}"
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
    "top_k": _Integer(-1, INT32 // 2),
    "min_tokens": _Integer(0, INT32),
    "seed": _Integer(-INT64, INT64 - 1),
    "temperature": _temperature,
    "stop": _stop,
    "regex": _Text(MAX_REGEX),
    "ebnf": _Text(MAX_GRAMMAR),
    "response_format": _response_format,
}
