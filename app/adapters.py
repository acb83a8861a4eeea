"""Models by name: the served one, its alias, and its LoRA adapters as `NAME:ADAPTER`."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import AgentElsewhereError, ModelNotFoundError
from app.replica_view import ReplicaView


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """A model that a request named.

    Attributes:
        public: what its answer calls it.
        engine: what the engine calls it.
        adapter: None for the model itself.
    """

    public: str
    engine: str
    adapter: str | None = None


def asked_model(view: ReplicaView, asked: str, names: Sequence[str]) -> AskedModel:
    """What a request means by a name; `names` are the served model's, its public one first.

    Raises:
        ModelNotFoundError: it isn't served here.
        AgentElsewhereError: it is an agent, which only responses are asked of.
    """
    if asked in names:
        return AskedModel(public=names[0], engine=view.info.served_name)
    name, _, adapter = asked.rpartition(":")
    if name == "agent" and name not in names:
        raise AgentElsewhereError(asked)
    if name not in names or adapter not in served_adapters(view):
        raise ModelNotFoundError(asked, model_names(view, names))
    return AskedModel(
        public=f"{names[0]}:{adapter}",
        engine=f"{view.info.served_name}:{adapter}",
        adapter=adapter,
    )


def model_names(view: ReplicaView, names: Sequence[str]) -> tuple[str, ...]:
    """All that requests may name."""
    return (*names, *(f"{names[0]}:{adapter}" for adapter in served_adapters(view)))


def served_adapters(view: ReplicaView) -> tuple[str, ...]:
    """The adapters that requests may name.

    None in front of KV tiers: LMCache names an adapter's KV by a digest that nobody can find again,
    so that it couldn't be destroyed with its tenant's.
    """
    return () if view.info.tiers else view.info.adapters
