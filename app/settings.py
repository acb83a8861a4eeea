"""The gateway's settings: one frozen object, read once from `FOREWORD_…` and `foreword.toml`."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

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
    conversation_mb: int = Field(
        128, gt=0, description="memory for what earlier turns were shown and the model said"
    )
    extra_fields: tuple[str, ...] = Field(
        (), description="further request fields that are passed to the engine as they come"
    )


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
    """The tier server (`lmcache server`) behind the engine."""

    url: str | None = Field(
        None, description="base URL of the tier server's HTTP port; tells which tier served a load"
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
    max_pages: int = Field(
        1_000_000, gt=0, description="pages remembered, about 120 bytes each; then the oldest go"
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


class Settings(BaseSettings):
    """Everything the gateway can be told.

    Environment variables win over `foreword.toml` in the working folder.
    """

    model_config = SettingsConfigDict(
        env_prefix="FOREWORD_",
        env_nested_delimiter="__",
        toml_file="foreword.toml",
        frozen=True,
        extra="ignore",
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
    engine: EngineSettings = EngineSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    corpora: CorporaSettings = CorporaSettings()
    modes: ModesSettings = ModesSettings()
    prices: PricesSettings = PricesSettings()
    tiers: TiersSettings = TiersSettings()
    database: DatabaseSettings = DatabaseSettings()
    ledger: LedgerSettings = LedgerSettings()
    accounting: AccountingSettings = AccountingSettings()
    report: ReportSettings = ReportSettings()

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
        """Arguments, then the environment, then `foreword.toml`."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)
