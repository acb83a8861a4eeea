"""Wire types: what clients send. OpenAI's shapes, with Foreword's own fields under `foreword`.

Source: OpenAI's chat completions reference; SGLang 0.5.23 srt/entrypoints/openai/protocol.py.
"""

from collections.abc import Container, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from app.errors import InvalidRequestError, RefusedFieldError
from app.openai_fields import IGNORED_FIELDS, is_known, part_refusal, refusal
from app.wire_limits import without_nul
from prompts import Message, Tool, canonical_tools
from prompts.plain_values import plain_message

# Sent to the engine as the client gave them.
FORWARDED_FIELDS = frozenset({
    "frequency_penalty", "logit_bias", "logprobs", "n", "parallel_tool_calls", "presence_penalty",
    "response_format", "seed", "stop", "temperature", "tool_choice", "tools", "top_logprobs",
    "top_p",
    # SGLang's sampling extras
    "ebnf", "ignore_eos", "min_p", "min_tokens", "regex", "repetition_penalty", "stop_token_ids",
    "top_k",
})  # fmt: skip
STEERING_FIELDS = frozenset({
    "cache_salt", "chat_template_kwargs", "continue_final_message", "custom_logit_processor",
    "custom_params", "extra_key", "input_ids", "kv_hints", "lora_path", "priority",
    "rid", "routed_dp_rank", "session_id", "session_params",
})  # fmt: skip
STEERING_PREFIXES = ("bootstrap_", "return_", "data_parallel_", "disagg_")


# What of a message reaches a chat template, beside role and content.
_MESSAGE_FIELDS = frozenset({"name", "reasoning_content", "tool_call_id", "tool_calls"})


class Mode(StrEnum):
    """How a collection reaches the prompt: retrieved passages, all of it, or a core and passages.

    `auto` is only asked for: what it is decided to be is one of the others.
    """

    AUTO = "auto"
    RAG = "rag"
    CAG = "cag"
    HYBRID = "hybrid"


class GivenBody(BaseModel):
    """What a client sends: a field that is null is one that it leaves out, as in OpenAI's API."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, value: Any) -> Any:
        if not isinstance(value, dict) or None not in value.values():
            return value
        return {name: given for name, given in value.items() if given is not None}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The fields may be null, too; of those that aren't known, nothing else."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        required = schema.get("required", ())
        for name, field in schema.get("properties", {}).items():
            if name not in required and {"type": "null"} not in field.get("anyOf", ()):
                schema["properties"][name] = {"anyOf": [field, {"type": "null"}]}
        if schema.get("additionalProperties") is False:
            schema["additionalProperties"] = {"type": "null"}
        return schema


class ForewordOptions(GivenBody):
    """The `foreword` object of a request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    template: str | None = None
    variables: dict[str, Any] = {}
    collection: Annotated[str, AfterValidator(without_nul)] | None = Field(None, min_length=1)
    mode: Mode | None = None
    # Of the search in the collection: OpenAI's filter shapes, the asker's groups, most passages,
    # and the least score that one must have.
    filters: dict[str, Any] | None = None
    groups: list[str] = []
    passages: Annotated[StrictInt, Field(ge=1, le=50)] | None = None
    score_threshold: Annotated[StrictFloat, Field(ge=0, le=1)] | None = None
    # The order of the passages in the prompt, and whether a second model ranks them.
    order: Literal["collection", "relevance", "cached"] | None = None
    rerank: StrictBool = False
    diagnostics: StrictBool = False
    # Whose turn it is when the engines are busy, and how long the request may wait for its own.
    priority: Literal["interactive", "normal", "background"] | None = None
    deadline_s: Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)] | None = None


class TextPart(BaseModel):
    """A part of a message's content."""

    model_config = ConfigDict(frozen=True)

    type: Literal["text"]
    text: str

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, value: Any) -> Any:
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind != "text":
            raise ValueError(part_refusal(kind, text_kind="text"))
        return value


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
    def known(self) -> bool:
        """Whether a chat template can be given all there is: text, reasoning, tool calls."""
        extra = self.model_extra or {}
        return all(name in _MESSAGE_FIELDS or not value for name, value in extra.items())

    def message(self) -> Message:
        """The message as prompts hold it, a call's arguments byte for byte.

        Raises:
            ValueError: a tool call or another field isn't what OpenAI's API says.
        """
        extra = self.model_extra or {}
        if not extra:
            return Message(role=self.engine_role, content=self.text)
        return plain_message({**extra, "role": self.engine_role, "content": self.text})

    @property
    def engine_role(self) -> str:
        """The role that every chat template knows."""
        return "system" if self.role == "developer" else self.role

    @property
    def instructs(self) -> bool:
        """Whether it speaks for the operator rather than in the conversation."""
        return self.role in ("system", "developer")


def _not_obfuscated(wanted: bool) -> bool:
    if wanted:
        raise ValueError(refusal("stream_options", wanted))
    return wanted


class StreamOptions(GivenBody):
    """OpenAI's `stream_options`, and SGLang's usage in every part."""

    include_usage: StrictBool = False
    include_obfuscation: Annotated[StrictBool, AfterValidator(_not_obfuscated)] = False
    continuous_usage_stats: StrictBool = False


class ChatCompletionRequest(GivenBody):
    """The body of `POST /v1/chat/completions`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: StrictBool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    foreword: ForewordOptions | None = None

    @property
    def extras(self) -> Mapping[str, object]:
        """The fields beyond those named above."""
        return self.model_extra or {}

    @property
    def known(self) -> bool:
        """Whether a chat template can be given all that the messages hold."""
        return all(message.known for message in self.messages)

    def tools(self) -> tuple[Tool, ...]:
        """The tools in their canonical order and spelling.

        Raises:
            InvalidRequestError: they aren't what OpenAI's API says, or two have one name.
        """
        given = self.extras.get("tools")
        if not given:
            return ()
        try:
            return canonical_tools(given) if isinstance(given, list | tuple) else _no_list()
        except ValueError as error:
            raise InvalidRequestError(f"tools: {error}", param="tools") from error

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


def check_fields(request: ChatCompletionRequest, allowed: Sequence[str] = ()) -> None:
    """Refuse what only the gateway may set, and what nobody knows.

    `allowed` are further fields that the operator lets through.

    Raises:
        RefusedFieldError: names the field and says why.
    """
    check_extras(request.extras, FORWARDED_FIELDS, allowed)


def check_extras(
    extras: Mapping[str, object], forwarded: Container[str], allowed: Container[str]
) -> None:
    """Refuse each extra field that is neither forwarded, nor ignored, nor allowed.

    Raises:
        RefusedFieldError: names the field and says why.
    """
    for field, value in extras.items():
        if field in forwarded or field in IGNORED_FIELDS or field in allowed:
            continue
        if is_known(field):
            reason = refusal(field, value)
            if reason is not None:
                raise RefusedFieldError(field, reason)
            continue
        if field in STEERING_FIELDS or field.startswith(STEERING_PREFIXES):
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
    conversation = tuple(
        _message(index, message) for index, message in enumerate(messages[leading:], leading)
    )
    if not conversation:
        raise InvalidRequestError(
            "there is nothing to answer: add a message with role user", param="messages"
        )
    return "\n\n".join(m.text for m in messages[:leading]), conversation


def _message(index: int, message: ChatMessage) -> Message:
    try:
        return message.message()
    except ValueError as error:
        raise InvalidRequestError(f"message {index}: {error}", param="messages") from error


def _no_list() -> NoReturn:
    raise ValueError("must be a list")
