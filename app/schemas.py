"""Wire types: what clients send. OpenAI's shapes, with Foreword's own fields under `foreword`.

Source: OpenAI's chat completions reference; SGLang 0.5.23 srt/entrypoints/openai/protocol.py.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from app.errors import InvalidRequestError, RefusedFieldError
from prompts import Message

# Sent to the engine as the client gave them.
FORWARDED_FIELDS = frozenset({
    "frequency_penalty", "logit_bias", "logprobs", "n", "parallel_tool_calls", "presence_penalty",
    "response_format", "seed", "stop", "temperature", "tool_choice", "tools", "top_logprobs",
    "top_p",
    # SGLang's sampling extras
    "ebnf", "ignore_eos", "min_p", "min_tokens", "regex", "repetition_penalty", "stop_token_ids",
    "top_k",
})  # fmt: skip
# OpenAI's fields that mean nothing to a self-hosted engine: taken, not sent.
IGNORED_FIELDS = frozenset({
    "metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier",
    "store", "user",
})  # fmt: skip
_STEERING_FIELDS = frozenset({
    "cache_salt", "chat_template_kwargs", "continue_final_message", "custom_logit_processor",
    "custom_params", "extra_key", "input_ids", "kv_hints", "lora_path", "priority",
    "reasoning_effort", "rid", "routed_dp_rank", "session_id", "session_params",
})  # fmt: skip
_STEERING_PREFIXES = ("bootstrap_", "return_", "data_parallel_", "disagg_")


class Mode(StrEnum):
    """How a collection reaches the prompt: retrieved passages, or all of it."""

    RAG = "rag"
    CAG = "cag"


class ForewordOptions(BaseModel):
    """The `foreword` object of a request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    template: str | None = None
    collection: str | None = None
    mode: Mode | None = None


class TextPart(BaseModel):
    """A part of a message's content."""

    model_config = ConfigDict(frozen=True)

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """One message. Tool calls and their results are kept as they came."""

    model_config = ConfigDict(extra="allow", frozen=True)

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None

    @property
    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content or [])

    @property
    def plain(self) -> bool:
        """Whether role and text are all there is."""
        return self.role != "tool" and not self.model_extra

    @property
    def engine_role(self) -> str:
        """The role that every chat template knows."""
        return "system" if self.role == "developer" else self.role

    @property
    def instructs(self) -> bool:
        """Whether it speaks for the operator rather than in the conversation."""
        return self.role in ("system", "developer")


class StreamOptions(BaseModel):
    """OpenAI's `stream_options`."""

    model_config = ConfigDict(frozen=True)

    include_usage: bool = False


class ChatCompletionRequest(BaseModel):
    """The body of `POST /v1/chat/completions`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    foreword: ForewordOptions | None = None

    @property
    def extras(self) -> Mapping[str, object]:
        """The fields beyond those named above."""
        return self.model_extra or {}

    @property
    def plain(self) -> bool:
        """Whether the conversation is text alone: no tools, no calls, no results."""
        return "tools" not in self.extras and all(message.plain for message in self.messages)

    @property
    def completion_limit(self) -> int | None:
        """Most tokens of the answer, where the client says."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def wants_last_chunk(self) -> bool:
        """Whether a stream may end in a chunk with empty `choices`.

        Only a client that asks for usage or for something of Foreword's is ready for one.
        """
        usage = self.stream_options is not None and self.stream_options.include_usage
        return usage or self.foreword is not None


class VectorStoreCreate(BaseModel):
    """The body of `POST /v1/vector_stores`."""

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    file_ids: list[str] = []
    metadata: dict[str, str] | None = None


class VectorStoreFileCreate(BaseModel):
    """The body of `POST /v1/vector_stores/{id}/files`."""

    model_config = ConfigDict(frozen=True)

    file_id: str


class VectorStoreSearch(BaseModel):
    """The body of `POST /v1/vector_stores/{id}/search`."""

    model_config = ConfigDict(frozen=True)

    query: Annotated[str, StringConstraints(min_length=1)]
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10


def check_fields(request: ChatCompletionRequest, allowed: Sequence[str] = ()) -> None:
    """Refuse what only the gateway may set, and what nobody knows.

    `allowed` are further fields that the operator lets through.

    Raises:
        RefusedFieldError: names the field and says why.
    """
    for field in request.extras:
        if field in FORWARDED_FIELDS or field in IGNORED_FIELDS or field in allowed:
            continue
        if field in _STEERING_FIELDS or field.startswith(_STEERING_PREFIXES):
            raise RefusedFieldError(field, "it steers the engine, which only the gateway may do")
        raise RefusedFieldError(field, "it is not a field of this API")


def split_messages(messages: Sequence[ChatMessage]) -> tuple[str, tuple[Message, ...]]:
    """The leading instructions as one text, and the conversation after them.

    Raises:
        InvalidRequestError: there is no conversation.
    """
    leading = 0
    while leading < len(messages) and messages[leading].instructs:
        leading += 1
    conversation = tuple(Message(role=m.engine_role, content=m.text) for m in messages[leading:])
    if not conversation:
        raise InvalidRequestError(
            "there is nothing to answer: add a message with role user", param="messages"
        )
    return "\n\n".join(m.text for m in messages[:leading]), conversation
