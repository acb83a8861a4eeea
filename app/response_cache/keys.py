"""Which requests have one answer only, and what that answer is kept under. Pure.

The key is made of what the engine would be given: the prompt as tokens, with template, documents
and conversation in it, and all that steers the answer. So whatever changes any of it (a version, a
document, a model) asks under another key, and nothing stale can be found.
"""

import hmac
from collections.abc import Mapping
from enum import StrEnum

import orjson

from app.engine import EngineInfo
from app.prepared import Prepared
from app.schemas import ChatCompletionRequest

# A change of what is kept, or of what it is kept under, is a change of this.
_VERSION = 1
# Of the engine's body: they name, place or spell the answer, or are in the key by other words.
_NOT_STEERING = frozenset({
    "cache_salt", "input_ids", "messages", "model", "priority", "return_cached_tokens_details",
    "return_output_ids_in_sglext", "rid", "stream", "stream_options", "tools",
})  # fmt: skip
# What of an engine's settings may change its greedy answers.
_ENGINE_SETTINGS = (
    "attention_backend", "dtype", "kv_cache_dtype", "quantization", "revision", "sampling_backend",
    "speculative_algorithm", "weight_version",
)  # fmt: skip


class CacheControl(StrEnum):
    """What a request says of kept answers, by its Cache-Control header."""

    USUAL = "usual"
    NO_CACHE = "no-cache"
    """A new answer, which is kept."""
    NO_STORE = "no-store"
    """A new answer, of which nothing is kept."""


def cache_control(header: str | None) -> CacheControl:
    """The stricter one where both are named; other words mean nothing here."""
    words = {word.strip().lower() for word in (header or "").split(",")}
    for strict in (CacheControl.NO_STORE, CacheControl.NO_CACHE):
        if strict.value in words:
            return strict
    return CacheControl.USUAL


def has_one_answer(request: ChatCompletionRequest) -> bool:
    """Whether the model's answer may be given again to the same request.

    Greedy, a single one, and without tools: the answer to those is something to be done, which the
    client asked to have decided now. Log probabilities are left out, being many times the text.
    """
    extras = request.extras
    options = request.stream_options
    return (
        extras.get("temperature") == 0
        and extras.get("n") in (None, 1)
        and not extras.get("tools")
        and not any(message.role == "tool" for message in request.messages)
        and not extras.get("logprobs")
        and not (options is not None and options.continuous_usage_stats)
        and not (request.foreword is not None and request.foreword.diagnostics)
    )


def cache_key(secret: bytes, prepared: Prepared, engine: EngineInfo) -> str:
    """What the answer to a request is kept under; nobody without the secret can make one."""
    prompt = prepared.prompt
    told: Mapping[str, object] = {
        "version": _VERSION,
        "tenant": prepared.tenant,
        "salt": prepared.salt,
        "template": prepared.template,
        "model": [
            prepared.model,
            prepared.adapter,
            engine.served_name,
            engine.model_path,
            engine.version,
            *(str(engine.settings.get(name)) for name in _ENGINE_SETTINGS),
        ],
        "tokenizer": None if prepared.tokenizer is None else prepared.tokenizer.identity,
        # The engine renders the messages where the gateway can't.
        "prompt": prepared.text if prompt is None else prompt.digest,
        "collection": prepared.collection,
        "mode": prepared.mode,
        "sources": [[source.file_id, source.chunk_id] for source in prepared.sources],
        "steering": {
            name: _plain(value)
            for name, value in prepared.body.items()
            if name not in _NOT_STEERING
        },
    }
    canonical = orjson.dumps(told, option=orjson.OPT_SORT_KEYS, default=str)
    return hmac.digest(secret, canonical, "sha256").hex()


def _plain(value: object) -> object:
    """A number in one spelling: clients and their libraries write 0 or 0.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
