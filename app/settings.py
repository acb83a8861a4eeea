"""The gateway's settings: one frozen object, read once from `FOREWORD_…` and `foreword.toml`."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from app.origins import web_origin
from app.secret_files import read_secret_files, without_secret_files
from cache.usage import Tier


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GatewaySettings(_Section):
    """The HTTP surface."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8400, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    max_body_bytes: int = Field(64 * 2**20, gt=0, description="largest request body")
    allow_without_keys: bool = Field(
        False,
        description="listen beyond loopback though there are no API keys; only where something "
        "else keeps strangers out",
    )
    drain_s: int = Field(
        30,
        ge=0,
        description="longest time that a shutdown waits for answers under way; then they are cut",
    )
    conversation_mb: int = Field(
        64, gt=0, description="memory for what earlier turns were shown and the model said"
    )
    opening_mb: int = Field(
        32, gt=0, description="memory for prompts' beginnings, so that only what is new is encoded"
    )
    redis_url: SecretStr | None = Field(
        None,
        description="redis:// URL through which several gateways share limits and fairness, and "
        "what they sent to which replica; without it each counts for itself",
    )
    default_max_tokens: int | None = Field(
        None, gt=0, description="most tokens of an answer whose request doesn't say"
    )
    extra_fields: tuple[str, ...] = Field(
        (), description="further request fields that are passed to the engine as they come"
    )


class WireSettings(_Section):
    """Limits on what a client may send, and on how slowly."""

    connections: int = Field(
        4096, gt=0, description="connections open together; one more is told so and closed"
    )
    target_bytes: int = Field(8192, ge=256, description="largest path and query of a request")
    head_bytes: int = Field(
        32 * 2**10, ge=1024, description="largest request line and headers together"
    )
    headers: int = Field(100, ge=10, description="most headers of a request")
    head_s: float = Field(10.0, gt=0, description="longest time that headers may take to arrive")
    body_window_s: float = Field(
        10.0, gt=0, description="a body must go on in each window of so many seconds"
    )
    body_bytes_per_s: float = Field(500.0, ge=0, description="the least that a body goes on by")
    body_s: float = Field(600.0, gt=0, description="longest time that a body may take to arrive")
    send_stall_s: float = Field(
        60.0, gt=0, description="longest time that a client may leave an answer unread"
    )
    keep_alive_s: int = Field(
        75, gt=0, description="longest time that a connection waits for its next request"
    )
    linger_s: float = Field(
        2.0, gt=0, description="time for a refused client to read why, while what it sends is lost"
    )
    json_bytes: int = Field(
        16 * 2**20, gt=0, description="largest JSON body; files have `gateway.max_body_bytes`"
    )
    json_depth: int = Field(64, ge=8, le=200, description="most lists and objects in each other")
    json_containers: int = Field(
        100_000, gt=0, description="most lists and objects of a JSON body together"
    )
    held_bytes: int = Field(
        2**29, gt=0, description="bytes of request bodies held in memory together"
    )
    hosts: tuple[str, ...] = Field(
        (),
        description="names in a Host header that are taken, beside loopback names and IP "
        "addresses, from callers without a key",
    )
    origins: tuple[str, ...] = Field(
        (),
        description="other people's web pages (JSON list of `https://name[:port]`) whose scripts "
        "may call and read the answers (CORS), with a key where one is needed; by default only the "
        "gateway's own pages",
    )

    @field_validator("origins")
    @classmethod
    def _as_browsers_send_them(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(web_origin(origin) for origin in origins)


class EngineSettings(_Section):
    """The SGLang server behind the gateway."""

    url: str = Field("http://127.0.0.1:30000", description="SGLang's base URL")
    model: str | None = Field(
        None, description="public model name; by default the name that the engine serves"
    )
    tokenizer: Path | None = Field(
        None, description="folder with tokenizer.json; by default the engine's own model path"
    )
    connect_timeout_s: float = Field(5.0, gt=0, description="longest wait for a connection")
    first_byte_timeout_s: float = Field(600.0, gt=0, description="queueing and prefill included")
    between_bytes_timeout_s: float = Field(
        120.0, gt=0, description="longest silence within an answer"
    )
    silent_s: float = Field(
        30.0,
        ge=5,
        description="an engine that answers nothing for so long, its health check included, is "
        "given up: what waits there for its first byte goes to another one, or fails",
    )
    max_connections: int = Field(1024, gt=0, description="open connections to the engine")
    tiers: tuple[Tier, ...] = Field(
        tuple(Tier), description="KV tiers that the engine runs with; tells loads apart"
    )
    kv_events: str | None = Field(
        None, description="tcp:// address of the engine's KV events; by default as it tells itself"
    )
    kv_events_replay: str | None = Field(
        None, description="tcp:// address where KV events can be asked for again"
    )


class TiersSettings(_Section):
    """The tier servers (`lmcache server`) behind the engines: `url`, `urls` or `port`, one of
    them."""

    url: str | None = Field(
        None,
        description="base URL of the HTTP port of the tier server that all replicas share; tells "
        "which tier served a load",
    )
    urls: tuple[str, ...] = Field(
        (),
        description="base URLs of tier servers of the replicas' own, in the order of "
        "`replicas.urls`",
    )
    port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="HTTP port of a tier server of each replica's own, on the replica's host; "
        "follows discovery",
    )
    timeout_s: float = Field(2.0, gt=0, description="longest wait for one of its answers")
    chunk_tokens: int | None = Field(
        None, gt=0, description="tokens in a chunk (`--chunk-size`); by default as the server tells"
    )
    break_even: Literal["auto", "warn"] = Field(
        "auto",
        description="what becomes of a tier that loads slower than the engine computes: switched "
        "off, or only told",
    )

    @property
    def are_own(self) -> bool:
        """Whether each replica has a tier server of its own."""
        return bool(self.urls) or self.port is not None


class DatabaseSettings(_Section):
    """Where files, collections and the ledger are kept."""

    url: SecretStr | None = Field(
        None, description="postgresql://… URL; by default SQLite in the home folder"
    )


class RetrievalSettings(_Section):
    """Documents and search."""

    embedder: str = Field(
        "all-minilm-l6-v2",
        min_length=1,
        description="the embedding model: `all-minilm-l6-v2`, a sentence-transformers model's "
        "folder or its name in the local Hugging Face cache; `hashing` knows words but no meaning, "
        "and needs no torch",
    )
    embedder_threads: int = Field(1, ge=1, description="CPU threads of the embedding process")
    chunk_tokens: int = Field(
        192,
        ge=64,
        le=8192,
        description="most tokens of the embedding model in one passage; no more than it reads",
    )
    parse_seconds: float = Field(
        120.0, gt=0, description="a file whose reading takes longer is refused"
    )
    parse_memory_bytes: int = Field(
        1 << 30,
        ge=1 << 26,
        description="memory that reading one file may take, in a process of its own",
    )
    ingest_workers: int = Field(
        2, ge=1, le=64, description="collections that are ingested into at the same time"
    )
    passages: int = Field(6, ge=1, le=64, description="passages put into a prompt")
    vectors: Literal["faiss", "pgvector"] = Field(
        "faiss",
        description="what searches the vectors: FAISS in the gateway, or PostgreSQL with the "
        "extension pgvector, which several gateways can share",
    )
    vectors_url: SecretStr | None = Field(
        None,
        description="postgresql://… URL of the server with pgvector; by default the database's",
    )
    vector_weight: float = Field(
        1.0, ge=0, description="weight of the search by meaning where both are fused"
    )
    lexical_weight: float = Field(
        1.0, ge=0, description="weight of the search by words where both are fused"
    )
    reranker: str | None = Field(
        None,
        min_length=1,
        description="folder of a cross-encoder, or its name in the local Hugging Face cache, for "
        "searches that ask for re-ranking",
    )
    reranker_threads: int = Field(1, ge=1, description="CPU threads of the re-ranking process")
    order: Literal["collection", "relevance", "cached"] = Field(
        "collection",
        description="order of the passages: as ingested (equal finds, equal bytes), best first, or "
        "what the engine holds first",
    )


class ReplicasSettings(_Section):
    """The engines behind the gateway; all serve one model."""

    urls: tuple[str, ...] = Field(
        (), description="base URLs of all replicas; by default that of `engine.url` alone"
    )
    discovery: Literal["static", "dns", "kubernetes"] = Field(
        "static",
        description="where replicas come from: the list, all addresses of a DNS name, or the "
        "endpoints of a Kubernetes service",
    )
    dns: str | None = Field(None, description="HOST:PORT; every address of the host is a replica")
    kubernetes: str | None = Field(
        None, description="NAMESPACE/SERVICE:PORT; every endpoint of the service is a replica"
    )
    discover_s: float = Field(
        5.0, gt=0, description="seconds between two looks for replicas that came or went"
    )


class RoutingSettings(_Section):
    """Which replica a request goes to."""

    policy: Literal["least-ttft", "least-loaded", "consistent-hash", "round-robin"] = Field(
        "least-ttft",
        description="`least-ttft`: the least estimated time to the first token; the others are "
        "for comparison",
    )
    load_weight: float = Field(
        0.075,
        gt=0,
        description="least-ttft: what a second of waiting for others counts against a second of "
        "computing what isn't held; more spreads sooner and re-uses less",
    )
    spread_weight: float = Field(
        0.02,
        ge=0,
        description="least-ttft: what a second of work counts that a replica was sent lately; more "
        "fills the caches more evenly and re-uses less",
    )
    balance_weight: float = Field(
        1.0,
        ge=0,
        description="least-ttft: what a replica costs that got twice its share of the last "
        "minute's prompts, as a multiple of the time to compute a prompt of mean length; more "
        "keeps peaks lower and re-uses less",
    )
    pool_full: float = Field(
        0.9,
        ge=0,
        lt=1,
        description="least-ttft: share of a replica's KV pool in use from which it is avoided",
    )
    hash_bound: float = Field(
        1.25,
        ge=1,
        description="consistent-hash: most requests on one replica, as a multiple of the mean",
    )
    opening_tokens: int = Field(
        1024,
        ge=1,
        description="tokens of a prompt's beginning that consistent hashing looks at, and that "
        "decide where all else is equal",
    )


class CorporaSettings(_Section):
    """Whole collections that are kept in the engine's memory (mode cag)."""

    pool_share: float = Field(
        0.5, gt=0, le=1, description="most of the engine's KV pool that they may take together"
    )
    step_tokens: int = Field(
        2048, ge=64, description="tokens that one request of a warming computes at most"
    )
    reserve_tokens: int = Field(
        512, ge=1, description="tokens of the window that are left for question and answer"
    )
    memory_mb: int = Field(
        512, gt=0, description="texts and token ids kept in the gateway, so that none is made twice"
    )
    swap_s: float = Field(
        120.0,
        ge=0,
        description="longest time that a changed collection is shown as it was, while its new KV "
        "is warmed",
    )
    watch_s: float = Field(1.0, gt=0, description="seconds between two looks at what is resident")
    probe_s: float = Field(
        60.0, gt=0, description="seconds between two probes of an engine without KV events"
    )
    half_life_s: float = Field(
        3600.0, gt=0, description="how fast it is forgotten that a collection was asked"
    )


class ModesSettings(_Section):
    """The choice between retrieval (rag), the whole collection (cag) and both (hybrid)."""

    default: Literal["auto", "rag", "cag", "hybrid"] = Field(
        "auto", description="mode where neither request nor collection names one"
    )
    margin: float = Field(
        0.1, ge=0, lt=1, description="auto: a mode must cost less by this share to be switched to"
    )
    dwell_s: float = Field(60.0, ge=0, description="auto: a mode is kept at least so long")
    patience: float = Field(
        0.12,
        ge=0,
        description="auto: share of a warming's cost that must have been missed before it is paid",
    )
    longest_wait_s: float = Field(
        5.0,
        ge=0,
        description="auto: a corpus that takes longer to warm is warmed aside, and its questions "
        "are answered by retrieval until then",
    )
    quality_margin: float = Field(
        0.05,
        ge=0,
        le=1,
        description="auto: loss of mean score over the collection's questions that is taken",
    )
    least_questions: int = Field(
        20, ge=1, description="auto: questions without which a question set shows nothing"
    )
    core_share: float = Field(
        0.25, gt=0, le=0.9, description="hybrid: share of the window that the core may take"
    )
    core_unchanged_s: float = Field(
        3600.0, ge=0, description="hybrid: a document unchanged for so long may be in the core"
    )


class PricesSettings(_Section):
    """A vendor's prices in dollars for a million tokens, to be compared with in plans."""

    input: float | None = Field(None, ge=0, description="input tokens that weren't cached")
    cached_input: float | None = Field(None, ge=0, description="cached input tokens")
    output: float | None = Field(None, ge=0, description="output tokens")


ToolChanges = Literal["append", "mask", "rewrite"]


class ConversationsSettings(_Section):
    """Stored conversations and responses."""

    days: float | None = Field(
        None, gt=0, description="days that a conversation is kept after its last use"
    )
    store_responses: bool = Field(
        True, description="store a response where its request doesn't say whether to"
    )
    response_days: float | None = Field(
        30.0, gt=0, description="days that a response can be fetched and gone on from"
    )
    tool_changes: ToolChanges = Field(
        "append",
        description="what becomes of a list of tools that changes: `append` tells it at the end, "
        "`mask` doesn't tell that a tool is gone, `rewrite` computes all anew",
    )


class LedgerSettings(_Section):
    """The record of each request's re-use."""

    flush_s: float = Field(1.0, gt=0, description="a crash loses at most this much")
    rows_days: float = Field(30.0, gt=0, description="days that single requests are kept")
    hourly_days: float = Field(
        92.0, gt=0, description="days that hourly sums are kept; no fewer than `rows_days`"
    )
    daily_days: float = Field(
        731.0, gt=0, description="days that daily sums are kept; no fewer than `hourly_days`"
    )
    max_rows: int = Field(
        10_000_000, gt=0, description="beyond so many requests the oldest go before their time"
    )
    max_labels: int = Field(
        1000, gt=0, description="most tenants and collections told apart; the rest are `other`"
    )
    prompt_text: bool = Field(
        False, description="store the text of prompts; otherwise only hashes and counts are kept"
    )

    @model_validator(mode="after")
    def _finer_goes_first(self) -> "LedgerSettings":
        if not self.rows_days <= self.hourly_days <= self.daily_days:
            raise ValueError("rows_days must be no more than hourly_days, nor that than daily_days")
        return self


class AccountingSettings(_Section):
    """What could have been re-used, and why it was not."""

    enabled: bool = Field(True, description="compare each request with what earlier ones had left")
    max_pages: int | None = Field(
        None,
        gt=0,
        description="pages remembered, about 120 bytes each; then the oldest go. Unless given, 16 "
        "times what an engine's KV pool holds, but 250,000 to 4,000,000",
    )
    max_lineages: int = Field(
        10_000, gt=0, description="kinds of prompts whose last one is kept to find what changed"
    )
    event_wait_s: float = Field(
        0.1, ge=0, description="longest wait for KV events that may tell why less was re-used"
    )
    tier_wait_s: float = Field(
        0.1, ge=0, description="longest wait for the tier server to say which tier served a load"
    )


class ReportSettings(_Section):
    """What reports add to the figures."""

    price_per_gpu_hour: float | None = Field(
        None, gt=0, description="puts a price on saved GPU time; no money is shown without it"
    )


class LimitsSettings(_Section):
    """What each tenant may use that has no limits of its own; nothing set is without a limit."""

    requests_per_min: int | None = Field(None, gt=0, description="requests in a minute")
    tokens_per_min: int | None = Field(
        None, gt=0, description="prompt and completion tokens in a minute"
    )
    concurrent: int | None = Field(
        None, gt=0, description="requests at a time, waiting or answered"
    )
    tokens_per_day: int | None = Field(
        None, gt=0, description="prompt and completion tokens in a day (UTC)"
    )
    max_output_tokens: int | None = Field(
        None, gt=0, description="most tokens of output of one request"
    )
    max_prompt_tokens: int | None = Field(None, gt=0, description="longest prompt")


class AdmissionSettings(_Section):
    """The queue in front of the engines."""

    in_flight: int | None = Field(
        None,
        gt=0,
        description="requests that are given to the engines at a time; by default as many as their "
        "replicas run together, and some that wait there",
    )
    queued: int = Field(1000, ge=0, description="requests that may wait for their turn")
    longest_wait_s: float = Field(
        60.0, gt=0, description="a request that waited so long for its turn is refused"
    )


class BatchesSettings(_Section):
    """Batches of requests from files."""

    concurrent: int = Field(
        8, ge=1, description="requests of batches that are answered at a time where nobody waits"
    )
    beside: int = Field(
        1, ge=0, description="the same while other requests are waiting or answered"
    )
    long_share: float = Field(
        0.005,
        gt=0,
        le=1,
        description="most of an engine's time that it computes long prompts of batches beside "
        "other requests",
    )
    max_lines: int = Field(50_000, ge=1, description="most requests of a batch")


class AgentsSettings(_Section):
    """Agents, and their runs."""

    folder: Path | None = Field(
        None, description="folder with agent files of your own, beside those of Foreword"
    )
    lease_s: float = Field(
        15.0,
        gt=0.5,
        description="seconds without a word of its gateway after which another goes on with a run",
    )


class BackgroundSettings(_Section):
    """Responses that are made in the background."""

    concurrent: int = Field(
        8, ge=0, description="responses of the background that are made at a time; 0 makes none"
    )
    per_tenant: int = Field(4, ge=1, description="the same of one tenant")
    waiting: int = Field(
        1000, ge=1, description="responses of the background of a tenant that haven't ended"
    )


class ResponseCacheSettings(_Section):
    """Answers that are kept to be given again to the very same request."""

    enabled: bool = Field(
        False, description="give a deterministic request its kept answer, without an engine"
    )
    ttl_s: int = Field(3600, gt=0, description="longest time that an answer is kept")
    max_mb: int = Field(256, gt=0, description="kept answers of all tenants; the oldest go first")
    max_answer_bytes: int = Field(2**18, gt=0, description="a larger answer isn't kept")


class WebhookEndpoint(_Section):
    """Who is told of a tenant's events; without a tenant, of all tenants'."""

    url: str
    secret: SecretStr
    tenant: str | None = None


class WebhooksSettings(_Section):
    """Who is told when batches end, by signed HTTP requests (Standard Webhooks)."""

    endpoints: tuple[WebhookEndpoint, ...] = Field(
        (),
        description='JSON list of `{"url", "secret": "whsec_…", "tenant"}`; without a tenant one '
        "is told of all",
    )
    allow_private: bool = Field(
        False, description="take http:// URLs, and addresses that aren't public"
    )
    timeout_s: float = Field(10.0, gt=0, description="longest wait for an endpoint's answer")


_McpName = Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9-]{0,31}$")]
_Secret = Annotated[str, StringConstraints(pattern="^(env|file):.+$")]


class McpServerSettings(_Section):
    """One MCP server: a program of this machine, or a URL."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env_from: dict[str, _Secret] = Field(
        {}, description="the child's whole environment: name → `env:NAME` or `file:PATH`"
    )
    cwd: Path | None = Field(None, description="its folder; by default the home of Foreword")
    url: str | None = None
    headers_from: dict[str, _Secret] = Field(
        {}, description="headers of each request: name → `env:NAME` or `file:PATH`"
    )
    allow_private: bool = Field(
        False, description="take an http:// URL, and addresses that aren't public"
    )
    start_s: float = Field(30.0, gt=0, description="longest time to start, and to list its tools")
    timeout_s: float = Field(60.0, gt=0, description="longest time that a call may take")
    max_message_bytes: int = Field(
        4 * 2**20, ge=2**10, description="largest message that is taken from it"
    )
    max_result_bytes: int = Field(
        2**18, ge=2**8, description="largest text of a result that a model is shown"
    )

    @model_validator(mode="after")
    def _one_way(self) -> "McpServerSettings":
        if (self.command is None) == (self.url is None):
            raise ValueError("give an MCP server a `command` or a `url`, one of them")
        if self.url is None and (self.headers_from or self.allow_private):
            raise ValueError("`headers_from` and `allow_private` are for servers with a `url`")
        if self.command is None and (self.args or self.env_from or self.cwd):
            raise ValueError("`args`, `env_from` and `cwd` are for servers with a `command`")
        return self


class McpSettings(_Section):
    """MCP servers whose tools agents may use."""

    servers: dict[_McpName, McpServerSettings] = Field(
        {},
        description="MCP servers by name (`[mcp.servers.NAME]`): `command`, `args`, `env_from` or "
        "`url`, `headers_from`; see docs/mcp.md",
    )


class ShadowSettings(_Section):
    """A second endpoint that a sample of live traffic goes to as well, to be compared."""

    url: str | None = Field(
        None,
        description="base URL of the endpoint that gets copies of requests, prompts and all; "
        "without it nothing is mirrored",
    )
    form: Literal["ids", "messages"] = Field(
        "ids",
        description="what is sent: the token ids with a salt of their own, to an SGLang engine "
        "with the same tokenizer; or the messages, to any OpenAI-compatible endpoint",
    )
    fraction: float = Field(
        0.1,
        ge=0,
        le=1,
        description="share of conversations that are mirrored, with all their turns",
    )
    tenants: tuple[str, ...] = Field((), description="only these tenants' requests; none: all")
    templates: tuple[str, ...] = Field(
        (), description="only requests of these templates (`docqa` or `docqa@2`); none: all"
    )
    model: str | None = Field(
        None, description="the model's name there; by default that of the request"
    )
    api_key: SecretStr | None = Field(None, description="bearer token for the endpoint")
    salt_field: str | None = Field(
        None,
        pattern="^[a-z_]{1,64}$",
        description="messages: field that takes a cache salt there, such as `cache_salt` for vLLM",
    )
    concurrency: int = Field(4, gt=0, le=256, description="copies that are under way at a time")
    queued: int = Field(64, gt=0, description="copies that may wait; further ones are dropped")
    queued_mb: int = Field(64, gt=0, description="memory that they may take together")
    timeout_s: float = Field(120.0, gt=0, description="longest time that a copy may take")
    keep_mb: int = Field(16, gt=0, description="disk for the figures; the oldest go")


class LogSettings(_Section):
    """What is written to stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least level of a line that is written"
    )
    format: Literal["auto", "json", "text"] = Field(
        "auto", description="`auto`: text on a terminal, JSON lines elsewhere"
    )
    requests: bool = Field(True, description="a line for each request, without any of its text")


class TelemetrySettings(_Section):
    """OpenTelemetry traces."""

    otlp_url: str | None = Field(
        None,
        pattern="^https?://",
        description="OTLP/HTTP collector that gets traces, such as http://127.0.0.1:4318; by "
        "default as `OTEL_EXPORTER_OTLP_ENDPOINT` says, and without both there are none",
    )
    tiers_otlp_url: str | None = Field(
        None,
        pattern="^https?://",
        description="OTLP/gRPC collector, such as http://127.0.0.1:4317, that `foreword up` has "
        "LMCache send its traces and its metrics to: it speaks nothing else",
    )
    sample_ratio: float | None = Field(
        None,
        ge=0,
        le=1,
        description="share of requests that are traced where the client didn't decide; by default "
        "as `OTEL_TRACES_SAMPLER` says, or all",
    )


class Settings(BaseSettings):
    """Everything the gateway can be told.

    Environment variables win over `foreword.toml` in the working folder.
    """

    model_config = SettingsConfigDict(
        env_prefix="FOREWORD_",
        env_nested_delimiter="__",
        toml_file="foreword.toml",
        frozen=True,
        extra="ignore",  # `app.starting` refuses what isn't known, by where it was given
    )

    home: Path = Field(
        Path("~/.local/share/foreword"),
        description="state that may not be lost",
        validate_default=True,
    )
    cache: Path = Field(
        Path("~/.cache/foreword"), description="what can be made again", validate_default=True
    )
    templates: Path | None = Field(
        None, description="folder with template files of your own, beside those of Foreword"
    )
    gateway: GatewaySettings = GatewaySettings()
    wire: WireSettings = WireSettings()
    engine: EngineSettings = EngineSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    replicas: ReplicasSettings = ReplicasSettings()
    routing: RoutingSettings = RoutingSettings()
    corpora: CorporaSettings = CorporaSettings()
    modes: ModesSettings = ModesSettings()
    prices: PricesSettings = PricesSettings()
    tiers: TiersSettings = TiersSettings()
    database: DatabaseSettings = DatabaseSettings()
    conversations: ConversationsSettings = ConversationsSettings()
    agents: AgentsSettings = AgentsSettings()
    ledger: LedgerSettings = LedgerSettings()
    accounting: AccountingSettings = AccountingSettings()
    report: ReportSettings = ReportSettings()
    limits: LimitsSettings = LimitsSettings()
    admission: AdmissionSettings = AdmissionSettings()
    batches: BatchesSettings = BatchesSettings()
    background: BackgroundSettings = BackgroundSettings()
    response_cache: ResponseCacheSettings = ResponseCacheSettings()
    webhooks: WebhooksSettings = WebhooksSettings()
    mcp: McpSettings = McpSettings()
    shadow: ShadowSettings = ShadowSettings()
    log: LogSettings = LogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @field_validator("home", "cache", "templates")
    @classmethod
    def _expand(cls, path: Path | None) -> Path | None:
        return path.expanduser() if path is not None else None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then files it names, then `foreword.toml`."""
        if isinstance(env_settings, EnvSettingsSource):
            env_settings.env_vars = without_secret_files(env_settings.env_vars)
        files = InitSettingsSource(settings_cls, init_kwargs=read_secret_files(os.environ))
        return init_settings, env_settings, files, TomlConfigSettingsSource(settings_cls)
