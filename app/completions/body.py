"""The body of `POST /v1/completions`, and what of it is refused.

Source: OpenAI's completions reference; SGLang 0.5.23 srt/entrypoints/openai/protocol.py.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import ConfigDict, Field, StrictBool, StrictInt

from app.errors import InvalidRequestError, RefusedFieldError
from app.sampling_limits import MAX_TOP_LOGPROBS
from app.schemas import (
    ChatCompletionRequest,
    ForewordOptions,
    GivenBody,
    StreamOptions,
    check_extras,
)

# What OpenAI's API and SGLang give where a client says nothing.
DEFAULT_MAX_TOKENS = 16
# OpenAI's own bound.
MAX_PROMPTS = 2048
# Sent to the engine as the client gave them.
FORWARDED_FIELDS = frozenset({
    "frequency_penalty", "logit_bias", "presence_penalty", "response_format", "seed", "stop",
    "temperature", "top_p",
    # SGLang's sampling extras
    "ebnf", "ignore_eos", "min_p", "min_tokens", "regex", "repetition_penalty", "stop_token_ids",
    "top_k",
})  # fmt: skip
# Of `foreword`, what needs no template: the rest is a chat completion's.
_OPTIONS = frozenset({"diagnostics", "priority", "deadline_s"})

TokenIds = list[StrictInt]


class CompletionRequest(GivenBody):
    """The body of `POST /v1/completions`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    model: str
    prompt: str | list[str] | TokenIds | list[TokenIds]
    stream: StrictBool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    n: Annotated[int, Field(ge=1, le=128, strict=True)] | None = None
    best_of: Annotated[int, Field(ge=1, strict=True)] | None = None
    logprobs: Annotated[StrictInt, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    echo: StrictBool | None = None
    suffix: str | None = None
    foreword: ForewordOptions | None = None

    @property
    def extras(self) -> Mapping[str, object]:
        """The fields beyond those named above."""
        return self.model_extra or {}

    @property
    def copies(self) -> int:
        """How many answers each prompt gets."""
        return self.n or 1

    @property
    def completion_limit(self) -> int:
        """Most tokens of an answer."""
        return self.max_tokens or DEFAULT_MAX_TOKENS

    @property
    def wants_last_chunk(self) -> bool:
        """Whether a stream may end in a chunk with empty `choices`, as for chat completions."""
        usage = self.stream_options is not None and self.stream_options.include_usage
        return usage or self.foreword is not None

    def each(self) -> "list[CompletionRequest]":
        """One request for each prompt; its `prompt` is a text or a list of ids.

        Raises:
            InvalidRequestError: there is no prompt, an empty one, or there are too many.
        """
        prompts = self._prompts()
        if len(prompts) > MAX_PROMPTS:
            problem = f"there are {len(prompts)} prompts; a request takes at most {MAX_PROMPTS}"
            raise InvalidRequestError(problem, param="prompt")
        if not prompts or not all(prompts):
            problem = "a prompt is empty; send at least one character or token id in each"
            raise InvalidRequestError(problem, param="prompt")
        return [self.model_copy(update={"prompt": prompt}) for prompt in prompts]

    def _prompts(self) -> Sequence[str | list[int]]:
        match self.prompt:
            case [int(), *_] as ids:
                return [[token for token in ids if isinstance(token, int)]]
            case list() as several:
                return [each for each in several if not isinstance(each, int)]
            case text:
                return [text]


AnswerRequest = ChatCompletionRequest | CompletionRequest


def check_completion(request: CompletionRequest, allowed: Sequence[str] = ()) -> None:
    """Refuse what only the gateway may set, what isn't served, and what nobody knows.

    `allowed` are further fields that the operator lets through.

    Raises:
        RefusedFieldError: names the field and says why.
    """
    check_extras(request.extras, FORWARDED_FIELDS, allowed)
    if request.suffix:
        reason = "the engine only goes on; spell the model's own fill-in-the-middle tokens"
        raise RefusedFieldError("suffix", reason)
    if request.best_of not in (None, request.copies):
        raise RefusedFieldError("best_of", "all answers are given back; ask for them with n")
    if request.echo and request.logprobs is not None:
        reason = "a prompt's log probabilities need it computed anew, past every cache"
        raise RefusedFieldError("echo", f"{reason}; ask for logprobs without echo")
    _check_options(request.foreword)


def _check_options(options: ForewordOptions | None) -> None:
    """Refuse what needs a template or a collection: a prompt of one's own has neither."""
    given = options.model_fields_set if options else frozenset()
    for field in sorted(given - _OPTIONS):
        reason = "a completion's prompt is sent as it is; use /v1/chat/completions"
        raise RefusedFieldError(f"foreword.{field}", reason)
