"""What the gateway asks of an SGLang server, over the pooled upstream client.

Source: SGLang 0.5.23 srt/entrypoints/http_server.py and srt/entrypoints/openai/protocol.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from app.engine_words import refusal_in
from app.errors import EngineProtocolError, EngineResponseError
from app.observation import trace_headers
from app.upstream import Headers, Upstream, UpstreamResponse

CHAT_PATH = "/v1/chat/completions"
TEXT_PATH = "/v1/completions"

_JSON: Headers = ((b"content-type", b"application/json"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvEventsAddress:
    """Where an engine publishes its KV events, and where it sends them again; ZeroMQ endpoints."""

    events: str
    replay: str | None = None
    topic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """What an engine says of itself.

    `cache_report` tells whether it counts cached tokens in each answer: without
    `--enable-cache-report` the figure is unknown. `page_tokens` is its `--page-size`. `kv_events`
    is None where it publishes none that one subscriber could follow. `adapters` are the LoRA
    adapters that it had loaded. `settings` is its whole `/server_info`.
    """

    model_path: str
    tokenizer_path: str
    served_name: str
    context_tokens: int
    page_tokens: int
    pool_tokens: int | None
    cache_report: bool
    tiers: bool
    version: str
    kv_events: KvEventsAddress | None = None
    adapters: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict, repr=False)


class EngineClient:
    """One engine."""

    def __init__(self, upstream: Upstream) -> None:
        self.url = upstream.url
        self.exchange = upstream.exchange
        self._upstream = upstream

    async def ready(self) -> bool:
        """Whether the engine takes requests; cheap enough to poll (2 ms, no token generated)."""
        response = await self._upstream.send("GET", "/ready")
        try:
            await response.read()
            return response.status == 200
        finally:
            response.close()

    async def info(self) -> EngineInfo:
        """The engine's own settings.

        Raises:
            EngineProtocolError: it isn't an SGLang server.
        """
        raw = await self.server_info()
        models = await self._json("GET", "/v1/models")
        try:
            context_tokens = int(models["data"][0]["max_model_len"])
            adapters = _adapters(models["data"])
            return _info(raw, context_tokens=context_tokens, adapters=adapters, url=self.url)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            problem = f"/server_info or /v1/models lacks {error}"
            raise EngineProtocolError(self.url, problem) from error

    async def server_info(self) -> Mapping[str, object]:
        """Every argument that the engine runs with, and what it resolved them to.

        Raises:
            EngineProtocolError: it isn't an SGLang server.
        """
        match await self._json("GET", "/server_info"):
            case dict() as raw:
                return raw
            case _:
                raise EngineProtocolError(self.url, "/server_info is no object")

    async def loads(self) -> bytes:
        """The engine's `/v1/loads`, for `cache.engine_loads.parse_loads`."""
        return await self._read("GET", "/v1/loads?include=core,memory")

    async def tokenize(
        self, messages: Sequence[Mapping[str, object]], tools: Sequence[object] = ()
    ) -> list[int]:
        """The ids that the engine would make of messages: the ground truth for ours.

        Raises:
            EngineResponseError: it refuses them.
        """
        body: dict[str, object] = {"messages": messages}
        if tools:
            body["tools"] = tools
        match await self._json("POST", "/v1/tokenize", orjson.dumps(body)):
            case {"tokens": list() as tokens}:
                return [int(token) for token in tokens]
            case _:
                raise EngineProtocolError(self.url, "/v1/tokenize has no tokens")

    async def token_ids(self, text: str, *, with_marks: bool = False) -> list[int]:
        """The ids of a text, with no chat template.

        Args:
            with_marks: with the special tokens that the model's tokenizer puts around a text.
        """
        body = orjson.dumps({"prompt": text, "add_special_tokens": with_marks})
        match await self._json("POST", "/v1/tokenize", body):
            case {"tokens": list() as tokens}:
                return [int(token) for token in tokens]
            case _:
                raise EngineProtocolError(self.url, "/v1/tokenize has no tokens")

    async def generate(self, body: Mapping[str, object]) -> Mapping[str, object]:
        """SGLang's own route: ids in, ids out. It counts re-used tokens without a cache report too.

        Raises:
            EngineResponseError: it refuses the request.
        """
        match await self._json("POST", "/generate", orjson.dumps(body)):
            case dict() as answer:
                return answer
            case _:
                raise EngineProtocolError(self.url, "/generate gives no object")

    async def flush_cache(self, *, wait_s: float) -> None:
        """Empty the engine's own cache (G1); what lies in the tiers below stays.

        Args:
            wait_s: how long the engine waits for its running requests to end.

        Raises:
            EngineResponseError: requests still run, so nothing was flushed.
        """
        await self._read("POST", f"/flush_cache?timeout={wait_s:g}")

    async def metrics(self) -> str:
        """The engine's Prometheus text."""
        return (await self._read("GET", "/metrics")).decode()

    async def chat(
        self,
        body: Mapping[str, object],
        *,
        labels: Mapping[str, str],
        path: str = CHAT_PATH,
    ) -> UpstreamResponse:
        """Send a chat completion, or what `path` takes; the caller closes the answer.

        `labels` are counted by the engine in its own metrics, for each template and tenant.

        Raises:
            EngineResponseError: the engine refused it.
        """
        headers = (*_JSON, (b"x-custom-labels", orjson.dumps(labels)), *trace_headers())
        response = await self._upstream.send("POST", path, headers=headers, body=orjson.dumps(body))
        if response.status != 200:
            raise await self._refusal(response)
        return response

    async def chat_begun(self, response: UpstreamResponse) -> None:
        """Until some of the answer to a chat request has come.

        Raises:
            EngineError: the engine refused it, or broke off.
        """
        if response.status != 200:
            raise await self._refusal(response)
        await response.begun()

    def framed(self, labels: Mapping[str, str]) -> tuple[bytes, bytes]:
        """What stands before and after the length of a body, in an untraced chat request."""
        headers = (*_JSON, (b"x-custom-labels", orjson.dumps(labels)))
        return self._upstream.framed("POST", CHAT_PATH, headers)

    async def abort(self, request_id: str) -> None:
        """Stop a request that nobody waits for any more."""
        await self._read("POST", "/abort_request", orjson.dumps({"rid": request_id}))

    def close(self) -> None:
        """Drop idle connections."""
        self._upstream.close()

    async def _json(self, method: str, path: str, body: bytes = b"") -> Any:
        raw = await self._read(method, path, body)
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise EngineProtocolError(self.url, f"{path} gives no JSON") from error

    async def _read(self, method: str, path: str, body: bytes = b"") -> bytes:
        response = await self._upstream.send(method, path, headers=_JSON, body=body)
        if response.status != 200:
            raise await self._refusal(response)
        try:
            return await response.read()
        finally:
            response.close()

    async def _refusal(self, response: UpstreamResponse) -> EngineResponseError:
        try:
            body = await response.read()
        finally:
            response.close()
        refusal = refusal_in(body)
        return EngineResponseError(self.url, response.status, refusal.message, param=refusal.param)


def _adapters(models: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """The models in `/v1/models` that stand on another."""
    return tuple(sorted(str(each["id"]) for each in models if each.get("parent")))


def _info(
    raw: Mapping[str, object], *, context_tokens: int, adapters: tuple[str, ...], url: str
) -> EngineInfo:
    model_path = str(raw["model_path"])
    states = raw.get("internal_states")
    state = states[0] if isinstance(states, list) and states else {}
    pool = raw.get("max_total_num_tokens") or state.get("max_total_num_tokens")
    return EngineInfo(
        model_path=model_path,
        tokenizer_path=str(raw.get("tokenizer_path") or model_path),
        served_name=str(raw.get("served_model_name") or model_path),
        context_tokens=context_tokens,
        page_tokens=int(str(raw["page_size"])),
        pool_tokens=int(str(pool)) if pool else None,
        cache_report=bool(raw.get("enable_cache_report")),
        tiers=bool(raw.get("enable_lmcache")),
        version=str(raw.get("version", "unknown")),
        kv_events=_kv_events(raw.get("kv_events"), url=url),
        adapters=adapters,
        settings=raw,
    )


def _kv_events(told: object, *, url: str) -> KvEventsAddress | None:
    """The address in SGLang's own description.

    One that it bound to all interfaces is reached at the host of its URL. An engine with several
    data-parallel ranks publishes for each on its own; which rank a request goes to is not known.
    """
    if not isinstance(told, Mapping) or told.get("dp_size") != 1:
        return None
    host, port = told.get("endpoint_host"), told.get("endpoint_port_base")
    replay = told.get("replay_endpoint_port_base")
    if not isinstance(host, str) or not isinstance(port, int):
        return None
    base = f"tcp://{_reached_at(host, url=url)}"
    return KvEventsAddress(
        events=f"{base}:{port}",
        replay=f"{base}:{replay}" if isinstance(replay, int) else None,
        topic=str(told.get("topic") or ""),
    )


def _reached_at(host: str, *, url: str) -> str:
    if host not in ("*", "0.0.0.0", "::", "[::]"):
        return host
    engine = urlsplit(url).hostname or "127.0.0.1"
    return f"[{engine}]" if ":" in engine else engine
