"""Schemas of the bodies that the routes take, by name.

They are made of the types that read the bodies, so that both change together. Chat completions'
further fields are listed here: they are passed to the engine, which checks them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app import sampling_limits as limits
from app.agents.bodies import Decision
from app.completions import body as completion
from app.openai_fields import ASKING_FOR_NOTHING, IGNORED_FIELDS
from app.openapi.answers import (
    ANYTHING,
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    Schema,
    listed,
    or_null,
    ref,
    shape,
)
from app.responses.bodies import ResponsesRequest
from app.responses.counting import InputTokensRequest
from app.routes.batches import BatchCreate
from app.routes.embeddings import EmbeddingsRequest
from app.routes.keys import KeyCreate, KeyRotate
from app.routes.plan import QualityBody
from app.routes.replicas import NewReplica
from app.routes.sync import SyncOptions
from app.routes.tenants import LimitsBody
from app.schemas import FORWARDED_FIELDS, ChatCompletionRequest
from app.stored.bodies import (
    ConversationCreate,
    ConversationFork,
    ConversationUpdate,
    ItemsCreate,
)
from app.vector_stores.bodies import (
    FileBatchCreate,
    VectorStoreCreate,
    VectorStoreFileCreate,
    VectorStoreFileUpdate,
    VectorStoreModify,
    VectorStoreSearch,
)

_REF = "#/components/schemas/{model}"
_MODELS: tuple[type[BaseModel], ...] = (
    BatchCreate,
    ChatCompletionRequest,
    completion.CompletionRequest,
    ConversationCreate,
    ConversationFork,
    ConversationUpdate,
    Decision,
    EmbeddingsRequest,
    FileBatchCreate,
    InputTokensRequest,
    ItemsCreate,
    KeyCreate,
    KeyRotate,
    LimitsBody,
    NewReplica,
    QualityBody,
    ResponsesRequest,
    SyncOptions,
    VectorStoreCreate,
    VectorStoreFileCreate,
    VectorStoreFileUpdate,
    VectorStoreModify,
    VectorStoreSearch,
)


def _whole(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


# What is checked beyond types is in app.sampling_limits; the rest the engine checks.
_STOP: Schema = TEXT | {"maxLength": limits.MAX_STOP}
_NAME: Schema = TEXT | {"maxLength": limits.MAX_NAME}
_PENALTY: Schema = NUMBER | {"minimum": -2, "maximum": 2}
# OpenAI's fields that are taken as long as they ask for nothing.
_DEFAULTS: dict[str, Schema] = {
    name: {"enum": list(ASKING_FOR_NOTHING[name])}
    for name in ("function_call", "functions", "modalities", "verbosity")
}
_FIELDS: dict[str, Schema] = _DEFAULTS | {
    "ebnf": TEXT | {"maxLength": limits.MAX_GRAMMAR},
    "frequency_penalty": _PENALTY,
    "ignore_eos": FLAG,
    "logit_bias": OBJECT
    | {
        "additionalProperties": NUMBER | {"minimum": -limits.MAX_BIAS, "maximum": limits.MAX_BIAS},
        "maxProperties": limits.MAX_BIASED,
    },
    "logprobs": FLAG,
    "metadata": OBJECT | {"additionalProperties": TEXT},
    "min_p": NUMBER | {"minimum": 0, "maximum": 1},
    "min_tokens": _whole(0, limits.INT32),
    "n": _whole(1, limits.MAX_COPIES),
    "parallel_tool_calls": FLAG,
    "presence_penalty": _PENALTY,
    "prompt_cache_key": _NAME,
    "prompt_cache_options": OBJECT,
    "prompt_cache_retention": _NAME,
    "regex": TEXT | {"maxLength": limits.MAX_REGEX},
    "repetition_penalty": NUMBER | {"exclusiveMinimum": 0, "maximum": 2},
    "response_format": OBJECT
    | {"properties": {"type": {"enum": list(limits.FORMATS)}}, "required": ["type"]},
    "safety_identifier": _NAME,
    "seed": _whole(-limits.INT64, limits.INT64 - 1),
    "service_tier": _NAME,
    "stop": {"anyOf": [_STOP, listed(_STOP) | {"maxItems": limits.MAX_STOPS}]},
    "stop_token_ids": listed(_whole(0, limits.INT32)) | {"maxItems": limits.MAX_STOP_IDS},
    "store": FLAG,
    "temperature": NUMBER | {"minimum": 0, "maximum": limits.MAX_TEMPERATURE},
    "tool_choice": {"anyOf": [TEXT, OBJECT]},
    "tools": listed(OBJECT),
    "top_k": {"anyOf": [_whole(-1, -1), _whole(1, limits.INT32 // 2)]},
    "top_logprobs": _whole(0, limits.MAX_TOP_LOGPROBS),
    "top_p": NUMBER | {"exclusiveMinimum": 0, "maximum": 1},
    "user": _NAME,
}

UPLOAD: Schema = shape(file={"type": "string", "format": "binary"}, purpose=TEXT)
SYNC: Schema = {
    "type": "object",
    "properties": {
        "file": listed({"type": "string", "format": "binary"}),
        "options": {"type": "string", "description": "a SyncOptions object as JSON"},
    },
}


def body_schemas() -> dict[str, Schema]:
    """All of them, and what they refer to."""
    _, made = models_json_schema([(model, "validation") for model in _MODELS], ref_template=_REF)
    schemas: dict[str, Schema] = made["$defs"]
    _add(schemas["ChatCompletionRequest"], FORWARDED_FIELDS | IGNORED_FIELDS | _DEFAULTS.keys())
    _add(schemas["CompletionRequest"], completion.FORWARDED_FIELDS | IGNORED_FIELDS)
    return schemas


def body_ref(model: type[BaseModel]) -> Schema:
    """A body by its name in the document."""
    return ref(model.__name__)


def _add(schema: dict[str, Any], fields: Iterable[str]) -> None:
    """Name the fields that are passed on, and close the object: others are refused."""
    properties: Mapping[str, Schema] = schema["properties"]
    further = {name: _further(name) for name in sorted(fields) if name not in properties}
    schema["properties"] = {**properties, **further}
    schema["additionalProperties"] = {"type": "null"}


def _further(name: str) -> Schema:
    return or_null(_FIELDS.get(name, ANYTHING))
