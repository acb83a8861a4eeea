"""What is the same for all usual requests of one client, worked out once."""

from app.callers import Caller
from app.engine import EngineClient
from app.prepare import ALIAS, public_model
from app.replica_view import ReplicaView
from app.services import Services
from prompts import PromptTokenizer, Template

_TEMPLATE = "chat"
_CONVERSATION, _QUESTION = "conversation", "question"
_MOST_FRAMED = 64


class Desk:
    """Of one caller and one view of the engines: with another one of either, it is made anew.

    Attributes:
        names: what requests call the model; `public` is what its answers call it.
        served: what the engine calls it.
        context_tokens: most tokens of a prompt and its answer.
        most_output: most tokens of an answer; `usual_output` where a request names none.
        is_limited: whether the tenant has limits by the minute, of which answers tell.
        knows_priorities: whether the engine takes a request's priority.
    """

    __slots__ = (
        "_framed",
        "caller",
        "context_tokens",
        "is_limited",
        "knows_priorities",
        "labels",
        "most_output",
        "most_prompt",
        "names",
        "public",
        "reference",
        "served",
        "template",
        "tenant",
        "tokenizer",
        "usual_output",
        "view",
    )

    def __init__(
        self,
        services: Services,
        caller: Caller,
        view: ReplicaView,
        tokenizer: PromptTokenizer,
        template: Template,
    ) -> None:
        limits = caller.limits
        self.view = view
        self.caller = caller
        self.tenant = caller.tenant
        self.tokenizer = tokenizer
        self.template = template
        self.reference = template.reference
        self.public = public_model(services, view)
        self.names = (self.public, ALIAS)
        self.served = view.info.served_name
        self.context_tokens = view.info.context_tokens
        by_minute = limits.requests_per_min, limits.tokens_per_min
        self.is_limited = any(limit is not None for limit in by_minute)
        self.most_output = limits.max_output_tokens
        self.most_prompt = limits.max_prompt_tokens
        default = services.settings.gateway.default_max_tokens
        bounds = [most for most in (default, limits.max_output_tokens) if most is not None]
        self.usual_output = min(bounds, default=None)
        self.knows_priorities = services.corpora.request_priority() is not None
        self.labels = {"template": self.reference, "tenant": self.tenant}
        self._framed: dict[EngineClient, tuple[bytes, bytes]] = {}

    def request(self, client: EngineClient, body: bytes) -> bytes:
        """The HTTP request that brings a body to an engine."""
        framed = self._framed.get(client)
        if framed is None:
            if len(self._framed) >= _MOST_FRAMED:
                self._framed.clear()
            framed = self._framed[client] = client.framed(self.labels)
        before, after = framed
        return b"%b%d%b%b" % (before, len(body), after, body)


def desk_for(services: Services, caller: Caller, view: ReplicaView) -> Desk | None:
    """None where a prompt's ids aren't made here, or the operator's own template asks for more."""
    template = services.templates.find(_TEMPLATE)
    variables = template.variables
    if view.tokenizer is None or not view.parity.ok:
        return None
    if _CONVERSATION not in variables or _QUESTION in variables:
        return None
    if caller.limits.max_output_tokens == 0:
        return None
    return Desk(services, caller, view, view.tokenizer, template)
