"""A request as it is ready to be sent."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from app.citations import telling_words
from app.engine import CHAT_PATH
from app.schemas import Mode
from prompts import (
    InherentBreak,
    Message,
    Prompt,
    PromptTokenizer,
    TokenizedPrompt,
    Transcript,
    Volatility,
)
from retrieval.documents import AttributeValue, Chunk

if TYPE_CHECKING:
    from app.modes import Decision
    from app.tool_lists import Listed


@dataclass(frozen=True, kw_only=True)
class Source:
    """A passage that was put into the prompt; `page` is None where the format has no pages.

    `score` is None where nothing was searched for, or in an earlier turn. `text` is the document's
    own, characters `start <= i < end` of it, whatever the prompt shows for it.
    """

    document: str
    text: str
    page: int | None = None
    heading: str | None = None
    file_id: str = ""
    score: float | None = None
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    chunk_id: str = ""
    document_id: str = ""
    start: int = 0
    end: int = 0

    @cached_property
    def words(self) -> frozenset[str]:
        """What answers are compared with; found once, since a corpus' passages are kept."""
        return telling_words(self.text)


def source_of(chunk: Chunk) -> Source:
    """A chunk as answers cite it."""
    return Source(
        document=chunk.name,
        text=chunk.text,
        page=chunk.page,
        heading=" > ".join(chunk.heading_path) or None,
        file_id=chunk.file_id,
        attributes=chunk.attributes,
        chunk_id=chunk.id,
        document_id=chunk.document_id,
        start=chunk.start,
        end=chunk.end,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """What the search for a request found.

    Attributes:
        first_turn: whether it began its conversation.
        documents: ids of the excerpts' documents, in the order of the prompt.
        found: document id → tokens of all its chunks that were found, by the chunks' measure.
        found_tokens: of the excerpts in the prompt; None where only the engine can count them.
        search_s: of the search; None where there was none.
    """

    first_turn: bool = True
    documents: tuple[str, ...] = ()
    found: Mapping[str, int] = field(default_factory=dict)
    found_tokens: int | None = None
    search_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Prepared:
    """A request that is ready to be sent; `replica` and `route_reason` are filled in then.

    `prompt` is None where the engine renders the messages itself; `rendered` is it before it
    became tokens, and `tokenizer` made them. `path` is the engine's route that takes `body`.
    `transcript` is there where an earlier answer's own ids are in it. `remember` keeps what a
    follow-up needs; it takes the answer, where there is one. `listed` are its tools;
    `inherent` says where the chat template itself ends re-use.
    """

    request_id: str
    tenant: str
    salt: str
    model: str
    template: str
    body: dict[str, object]
    labels: dict[str, str]
    rendered: Prompt
    prompt: TokenizedPrompt | None = None
    replica: str | None = None
    route_reason: str | None = None
    adapter: str | None = None
    collection: str | None = None
    mode: Mode | None = None
    mode_reason: str | None = None
    sources: tuple[Source, ...] = field(default=())
    decision: "Decision | None" = None
    retrieval: Retrieval | None = None
    path: str = CHAT_PATH
    tokenizer: PromptTokenizer | None = field(default=None, repr=False)
    transcript: Transcript | None = field(default=None, repr=False)
    remember: Callable[[Message | None], None] | None = field(default=None, repr=False)
    listed: "Listed | None" = field(default=None, repr=False)
    inherent: InherentBreak | None = None

    @property
    def scaffold_tokens(self) -> int:
        """Leading tokens that are the operator's own text, the same for all tenants."""
        if self.prompt is None or self.rendered.tools_volatility is not Volatility.STATIC:
            return 0  # chat templates put a client's tools before the rest
        return self.prompt.scaffold_tokens

    def inherent_told(self) -> dict[str, object] | None:
        """Where the model's chat template itself ends re-use, for the response; None: nowhere."""
        found = self.inherent
        if found is None:
            return None
        return {"token": found.token, "of": found.of, "turn": found.turn, "cause": found.cause}

    def noted(self) -> str | None:
        """The same of both in words, for the ledger."""
        news = self.listed.news if self.listed is not None else None
        if news is None and self.inherent is None:
            return None
        return " · ".join(str(each) for each in (news, self.inherent) if each is not None)

    def tools_told(self) -> dict[str, object] | None:
        """What became of the conversation's tools, for the response; None: nothing."""
        return self.listed.told() if self.listed is not None else None

    @property
    def digest(self) -> str | None:
        """Digest of the token ids; None where only the engine knows them."""
        return self.prompt.digest if self.prompt else None

    @property
    def text(self) -> str:
        """The prompt as a person would read it."""
        return "\n\n".join(f"{m.role}: {m.content}" for m in self.rendered.messages)
