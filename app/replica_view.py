"""What is known of one engine, as it was when the gateway met it."""

from dataclasses import dataclass

from app.engine import EngineInfo
from app.isolation import Isolation, IsolationVerdict
from app.parity import Parity
from prompts import PromptTokenizer

_NOT_TRIED = Isolation(verdict=IsolationVerdict.UNPROVEN, problem="it wasn't tried yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """What is known of an engine. Without parity the gateway sends messages instead of ids."""

    info: EngineInfo
    tokenizer: PromptTokenizer | None
    parity: Parity
    isolation: Isolation = _NOT_TRIED

    def difference(self, other: "ReplicaView") -> str | None:
        """Why a prompt made for one can't be sent to the other; None where it can."""
        for name, mine, theirs in (
            ("model", self.info.model_path, other.info.model_path),
            ("served model name", self.info.served_name, other.info.served_name),
            ("page size", self.info.page_tokens, other.info.page_tokens),
            ("tokenizer", _identity(self), _identity(other)),
            ("token parity", self.parity.ok, other.parity.ok),
            ("parity with tools", self.parity.tools, other.parity.tools),
        ):
            if mine != theirs:
                return f"its {name} is {theirs}, and that of the other replicas is {mine}"
        return None


def _identity(view: ReplicaView) -> str | None:
    return view.tokenizer.identity if view.tokenizer is not None else None
