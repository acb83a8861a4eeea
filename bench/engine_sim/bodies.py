"""Request bodies as the engine reads them: what it needs is checked, unknown fields are ignored.

Source: sglang 0.5.23 entrypoints/openai/protocol.py and managers/io_struct.py.
"""

from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    field_validator,
    model_validator,
)

_ROLES = frozenset(
    {"system", "user", "assistant", "tool", "function", "developer", "latest_reminder", "root"}
)


class Message(BaseModel):
    """A chat message; what else it carries goes to the chat template as it is."""

    model_config = ConfigDict(extra="allow")

    role: str
    content: str | list[dict[str, Any]] | None = None

    @field_validator("role")
    @classmethod
    def _known(cls, role: str) -> str:
        if role.lower() not in _ROLES:
            raise ValueError(f"'role' must be one of {sorted(_ROLES)} (case-insensitive).")
        return role.lower()

    @model_validator(mode="after")
    def _said(self) -> "Message":
        if self.role == "user" and self.content is None:
            raise ValueError("content: Field required")
        return self

    def for_template(self) -> dict[str, Any]:
        """The message as SGLang hands it to a template of strings.

        Its text parts are joined, absent content is empty, and a call's arguments are an object.

        Raises:
            ValueError: the arguments of a call are not a JSON object.
        """
        plain = self.model_dump(exclude_none=True)
        if isinstance(self.content, list):
            texts = [part["text"] for part in self.content if part.get("type") == "text"]
            plain["content"] = " ".join(texts)
        plain.setdefault("content", "")
        if self.role == "assistant" and "tool_calls" in plain:
            plain["tool_calls"] = [_call_for_template(call) for call in plain["tool_calls"]]
        return plain


def _call_for_template(call: dict[str, Any]) -> dict[str, Any]:
    function = dict(call["function"])
    if isinstance(function.get("arguments"), str):
        try:
            function["arguments"] = orjson.loads(function["arguments"])
        except orjson.JSONDecodeError as error:
            raise ValueError(
                "Assistant tool call function.arguments must be valid JSON."
            ) from error
    if not isinstance(function.get("arguments"), dict):
        raise ValueError("Assistant tool call function.arguments must be a JSON object.")
    return {"id": call.get("id"), "index": None, "type": "function", "function": function}


def tool_for_template(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool as SGLang hands it to a template: in the client's order, absent fields after those."""
    given = tool["function"]
    filled = {"description": None, "name": None, "parameters": None} | {
        key: value
        for key, value in given.items()
        if key in ("description", "name", "parameters")
        or (key in ("strict", "defer_loading") and value is not None)
    }
    order = [key for key in given if key in filled] + [key for key in filled if key not in given]
    return {
        "type": tool.get("type", "function"),
        "function": {key: filled[key] for key in order},
        "defer_loading": tool.get("defer_loading"),
    }


class Rendered(BaseModel):
    """What of a body shapes the prompt."""

    messages: list[Message] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    continue_final_message: bool = False
    add_generation_prompt: bool = True

    @field_validator("tools")
    @classmethod
    def _tools(cls, tools: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        for tool in tools or ():
            _Tool.model_validate(tool)
        return tools


class _Function(BaseModel):
    name: str
    description: str | None = None
    strict: bool | None = None
    defer_loading: bool | None = None


class _Tool(BaseModel):
    type: str = "function"
    function: _Function
    defer_loading: bool | None = None


class StreamOptions(BaseModel):
    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class JsonSchema(BaseModel):
    name: str
    description: str | None = None
    schema_: Annotated[dict[str, object] | None, Field(alias="schema")] = None
    strict: StrictBool | None = None


class ResponseFormat(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StructuresResponseFormat(BaseModel):
    begin: str
    schema_: Annotated[dict[str, object] | None, Field(alias="schema")] = None
    end: str


class LegacyStructuralTagResponseFormat(BaseModel):
    type: Literal["structural_tag"]
    structures: list[StructuresResponseFormat]
    triggers: list[str]
    at_least_one: bool = False


class StructuralTag(BaseModel):
    type: Literal["structural_tag"]
    format: dict[str, Any]


class Sampled(BaseModel):
    """What both routes know of sampling. A field that has no null here has none in the engine."""

    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: dict[str, float] | None = None
    n: int = 1
    seed: int | None = None
    min_tokens: int = 0
    regex: str | None = None
    ebnf: str | None = None
    ignore_eos: bool = False
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    response_format: ResponseFormat | LegacyStructuralTagResponseFormat | StructuralTag | None = (
        None
    )
    user: str | None = None

    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class ChatBody(Rendered, Sampled):
    """`POST /v1/chat/completions`."""

    model: str = "default"
    messages: list[Message]
    input_ids: list[int] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    parallel_tool_calls: bool = True
    rid: str | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    priority: int | None = None
    return_cached_tokens_details: bool = False
    return_output_ids_in_sglext: bool = False


class CompletionBody(Sampled):
    """`POST /v1/completions`; several prompts in one request are not simulated."""

    model: str = "default"
    prompt: str | list[int]
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int = Field(default=16, gt=0)
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    echo: bool = False
    logprobs: int | None = None
    rid: str | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    priority: int | None = None
    return_cached_tokens_details: bool = False
    return_token_ids: bool = False


class SamplingParams(BaseModel):
    """`/generate`: the part of `sampling_params` that is simulated."""

    max_new_tokens: int | None = 128
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    ignore_eos: bool = False


class GenerateBody(BaseModel):
    """`POST /generate`."""

    text: str | None = None
    input_ids: list[int] | None = None
    sampling_params: SamplingParams = Field(default_factory=SamplingParams)
    stream: bool = False
    rid: str | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    priority: int | None = None


class TokenizeBody(Rendered):
    """`POST /v1/tokenize`."""

    prompt: str | list[str] | None = None
    add_special_tokens: bool = True

    @model_validator(mode="after")
    def _one_of(self) -> "TokenizeBody":
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("Exactly one of 'prompt' or 'messages' must be provided.")
        return self


class DetokenizeBody(BaseModel):
    """`POST /v1/detokenize`."""

    tokens: list[int] | list[list[int]]
    skip_special_tokens: bool = True


class AbortBody(BaseModel):
    """`POST /abort_request`."""

    rid: str = ""
    abort_all: bool = False
