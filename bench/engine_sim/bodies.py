"""Request bodies as the engine reads them: what it needs is checked, unknown fields are ignored.

Source: sglang 0.5.23 entrypoints/openai/protocol.py and managers/io_struct.py.
"""

from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

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


class StreamOptions(BaseModel):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class ChatBody(Rendered):
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
    n: int = 1
    stop: str | list[str] | None = None
    stop_token_ids: list[int] = Field(default_factory=list)
    ignore_eos: bool = False
    rid: str | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    priority: int | None = None
    return_cached_tokens_details: bool = False
    return_output_ids_in_sglext: bool = False

    def stops(self) -> tuple[str, ...]:
        match self.stop:
            case None:
                return ()
            case str() as one:
                return (one,)
            case many:
                return tuple(many)


class CompletionBody(BaseModel):
    """`POST /v1/completions`; several prompts in one request are not simulated."""

    model: str = "default"
    prompt: str | list[int]
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int = Field(default=16, gt=0)
    temperature: float | None = None
    top_p: float | None = None
    n: int = 1
    echo: bool = False
    logprobs: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    rid: str | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    priority: int | None = None
    return_cached_tokens_details: bool = False
    return_token_ids: bool = False

    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


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
