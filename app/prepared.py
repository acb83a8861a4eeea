"""A request as it is ready to be sent."""

from dataclasses import dataclass, field

from app.schemas import Mode
from prompts import Prompt, TokenizedPrompt, Volatility, token_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A passage that was put into the prompt; `page` is None where the format has no pages."""

    document: str
    text: str
    page: int | None = None
    heading: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request that is ready to be sent.

    `prompt` is None where the engine renders the messages itself; `rendered` is it before it
    became tokens.
    """

    request_id: str
    tenant: str
    salt: str
    model: str
    template: str
    replica: str
    body: dict[str, object]
    labels: dict[str, str]
    rendered: Prompt
    prompt: TokenizedPrompt | None = None
    route_reason: str | None = None
    collection: str | None = None
    mode: Mode | None = None
    mode_reason: str | None = None
    sources: tuple[Source, ...] = field(default=())

    @property
    def scaffold_tokens(self) -> int:
        """Leading tokens that are the operator's own text, the same for all tenants."""
        if self.prompt is None or self.rendered.tools_volatility is not Volatility.STATIC:
            return 0  # chat templates put a client's tools before the rest
        tokens = 0
        for part in self.prompt.ranges:
            if part.segment.volatility is not Volatility.STATIC:
                break
            tokens = part.stop
        return tokens

    @property
    def digest(self) -> str | None:
        """Digest of the token ids; None where only the engine knows them."""
        return token_digest(self.prompt.token_ids) if self.prompt else None

    @property
    def text(self) -> str:
        """The prompt as a person would read it."""
        return "\n\n".join(f"{m.role}: {m.content}" for m in self.rendered.messages)
