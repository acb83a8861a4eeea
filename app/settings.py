"""The gateway's settings: one frozen object, read once from `FOREWORD_…` and `foreword.toml`."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
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


class RetrievalSettings(_Section):
    """Documents and search."""

    embedder: Literal["all-minilm-l6-v2", "hashing"] = Field(
        "all-minilm-l6-v2",
        description="the embedding model; `hashing` knows words but no meaning, and needs no torch",
    )
    chunk_tokens: int = Field(
        192, ge=64, le=254, description="most tokens of the embedding model in one passage"
    )
    passages: int = Field(6, ge=1, le=64, description="passages put into a prompt")


class LedgerSettings(_Section):
    """The record of each request's re-use."""

    flush_s: float = Field(1.0, gt=0, description="a crash loses at most this much")


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
    gateway: GatewaySettings = GatewaySettings()
    engine: EngineSettings = EngineSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    ledger: LedgerSettings = LedgerSettings()

    @field_validator("home", "cache")
    @classmethod
    def _expand(cls, path: Path) -> Path:
        return path.expanduser()

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
