"""What clients send to `/v1/responses`.

Fields that would be left undone are refused with what to do instead; see `refusals`.

Source: OpenAI's Responses reference, as of the `openai` SDK in requirements.lock.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, model_validator

from app.schemas import ForewordOptions, GivenBody
from app.wire_limits import Metadata


class _Body(GivenBody):
    model_config = ConfigDict(extra="forbid")


class HybridWeights(_Body):
    """Weights of the two searches; what is fused here has none."""

    embedding_weight: StrictFloat
    text_weight: StrictFloat


class RankingOptions(_Body):
    """The least score of a passage."""

    ranker: Literal["auto", "default-2024-11-15"] | None = None
    score_threshold: Annotated[StrictFloat, Field(ge=0, le=1)] | None = None
    hybrid_search: HybridWeights | None = None


class FileSearchTool(_Body):
    """Documents to answer from."""

    type: Literal["file_search"]
    vector_store_ids: list[str]
    max_num_results: Annotated[StrictInt, Field(ge=1, le=50)] | None = None
    filters: dict[str, Any] | None = None
    ranking_options: RankingOptions | None = None


class FunctionTool(_Body):
    """A function of the client's that the model may call."""

    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: StrictBool | None = None


Tool = Annotated[FileSearchTool | FunctionTool, Field(discriminator="type")]


class PromptReference(_Body):
    """A template of this deployment, with values for its variables."""

    id: str
    version: str | None = None
    variables: dict[str, Any] | None = None


class TextFormat(_Body):
    """What the answer's text must look like; `schema` only with `json_schema`."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str | None = None
    description: str | None = None
    json_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: StrictBool | None = None

    @model_validator(mode="after")
    def _schema_is_there(self) -> Self:
        if self.type == "json_schema" and (self.name is None or self.json_schema is None):
            raise ValueError("a format of type json_schema has a name and a schema")
        return self


class TextConfig(_Body):
    """The `text` object."""

    format: TextFormat = TextFormat()
    verbosity: Literal["low", "medium", "high"] | None = None


class ConversationReference(_Body):
    """A stored conversation."""

    id: str


class ResponsesOptions(ForewordOptions):
    """The `foreword` object: that of chat completions, and the agent that is to answer.

    `sub_agents`: whether a stream has the events of that agent's sub-agents, too.
    """

    agent: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    sub_agents: StrictBool = False


class ResponsesRequest(GivenBody):
    """The body of `POST /v1/responses`; what is not named here is in `extras`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    model: str
    input: str | list[dict[str, Any]] = Field([])
    instructions: str | None = None
    conversation: str | ConversationReference | None = None
    previous_response_id: str | None = None
    prompt: PromptReference | None = None
    tools: list[Tool] = Field([])
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    include: list[str] | None = None
    text: TextConfig = TextConfig()
    max_output_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    temperature: Annotated[StrictFloat, Field(ge=0, le=2)] | None = None
    top_p: Annotated[StrictFloat, Field(gt=0, le=1)] | None = None
    metadata: Metadata | None = None
    store: StrictBool | None = None
    background: StrictBool | None = None
    stream: StrictBool | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    foreword: ResponsesOptions | None = None

    @property
    def extras(self) -> dict[str, Any]:
        """The fields beyond those named above."""
        return self.model_extra or {}

    @property
    def conversation_id(self) -> str | None:
        """The stored conversation that this is a turn of."""
        named = self.conversation
        return named.id if isinstance(named, ConversationReference) else named

    @property
    def is_stored(self) -> bool:
        """Whether the response can be fetched and gone on from; as in OpenAI's API, it can unless
        the client says otherwise."""
        return self.store is not False

    @property
    def file_search(self) -> FileSearchTool | None:
        """The documents to answer from, where there are some."""
        return next((tool for tool in self.tools if isinstance(tool, FileSearchTool)), None)

    @property
    def functions(self) -> list[FunctionTool]:
        """The client's own functions."""
        return [tool for tool in self.tools if isinstance(tool, FunctionTool)]

    @property
    def searches(self) -> bool:
        """Whether documents are shown to the model."""
        match self.tool_choice:
            case "none":
                return False
            case {"type": "allowed_tools", "tools": list() as allowed}:
                kinds = [tool.get("type") for tool in allowed if isinstance(tool, dict)]
                return "file_search" in kinds and self.file_search is not None
            case _:
                return self.file_search is not None

    @property
    def shows_results(self) -> bool:
        """Whether the client wants to see what was found."""
        return "file_search_call.results" in (self.include or ())
