"""What the stack's services are made from: settings, places, ports, and what follows of them."""

from dataclasses import dataclass, replace
from pathlib import Path

from app.stack import commands
from app.stack.environment_plan import EngineEnvironment
from app.stack.errors import KvSerdeError
from app.stack.model import read_head_dim
from app.stack.paths import HomePaths
from app.stack.ports import LOOPBACK
from app.stack.settings import EnginePorts, Model, Ports, StackSettings
from cache.errors import TierSettingsError
from cache.tiers import LossySerde, RedisTier, TierSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class StackParts:
    """All that the services are made from.

    Attributes:
        environment: None if the engine is somebody else's.
        tiers: as asked for, Redis' address included.
        scratch: TMPDIR of engine and tier.
        cores: how many cores this process may use.
    """

    settings: StackSettings
    home: HomePaths
    ports: Ports
    environment: EngineEnvironment | None
    model: Model | None
    tiers: TierSettings | None
    scratch: Path
    cores: int

    @property
    def engine_urls(self) -> tuple[str, ...]:
        """In the order of the replicas' names; never empty."""
        if self.settings.engine_url is not None:
            return (self.settings.engine_url,)
        return tuple(f"http://{LOOPBACK}:{ports.http}" for ports in self.ports.engines)

    @property
    def tier_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.tier_http}"

    @property
    def kv_events(self) -> str | None:
        """ZMQ address of the only engine's KV events.

        None where the engines tell it themselves: several of them, or one whose own arguments
        say otherwise.
        """
        ports = self._event_ports
        return None if ports is None else f"tcp://{LOOPBACK}:{ports.kv_events}"

    @property
    def kv_events_replay(self) -> str | None:
        """Where its KV events can be asked for again."""
        ports = self._event_ports
        return None if ports is None else f"tcp://{LOOPBACK}:{ports.kv_events_replay}"

    @property
    def _event_ports(self) -> EnginePorts | None:
        named = commands.KV_EVENTS_OPTION in self.settings.engine.arguments
        if self.environment is None or named or len(self.ports.engines) != 1:
            return None
        return self.ports.engines[0]

    @property
    def gateway_url(self) -> str:
        host = LOOPBACK if self.settings.host in {"0.0.0.0", "::"} else self.settings.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.ports.gateway}"


def stack_tiers(settings: StackSettings, ports: Ports, model: Model | None) -> TierSettings | None:
    """The tiers with the stack's own Redis as G4 and a lossy serde, if those are wanted.

    Raises:
        KvSerdeError: the serde doesn't fit the model.
    """
    tiers = settings.tiers
    if tiers is None or not tiers.enabled:
        return None
    if settings.redis:
        own = RedisTier(host=LOOPBACK, port=ports.redis, max_gb=settings.redis_gb)
        tiers = replace(tiers, redis=own)
    if settings.kv_serde is not None:
        tiers = _with_serde(tiers, settings.kv_serde, model)
    return tiers


def _with_serde(tiers: TierSettings, serde: LossySerde, model: Model | None) -> TierSettings:
    head_dim = None
    if serde.needs_head_dim:
        head_dim = None if model is None or model.folder is None else read_head_dim(model.folder)
    try:
        return replace(tiers, serde=serde, head_dim=head_dim)
    except TierSettingsError as error:
        raise KvSerdeError(serde=serde.value, problem=str(error)) from error
