"""What clients send to `/v1/vector_stores`. Unknown fields are refused by name.

Source: OpenAI's vector store reference, as of the `openai` SDK in requirements.lock.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    model_validator,
)

from app.errors import InvalidRequestError
from app.schemas import Mode
from app.wire_limits import Attributes, Group, Metadata, without_nul

Name = Annotated[str, StringConstraints(max_length=200), AfterValidator(without_nul)]
_Groups = Annotated[list[Group], Field(max_length=64)]
_Query = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExpiresAfter(_Body):
    """After how many days without use a vector store goes."""

    anchor: Literal["last_active_at"]
    days: Annotated[int, Field(ge=1, le=365, strict=True)]


class ChunkSizes(_Body):
    """Sizes in tokens of the embedding model."""

    max_chunk_size_tokens: StrictInt
    chunk_overlap_tokens: StrictInt


class AutoChunking(_Body):
    """As this deployment cuts."""

    type: Literal["auto"]


class StaticChunking(_Body):
    """Given sizes."""

    type: Literal["static"]
    static: ChunkSizes


Chunking = Annotated[AutoChunking | StaticChunking, Field(discriminator="type")]


class StoreOptions(_Body):
    """The `foreword` object of a vector store: the mode that it is pinned to, and its rank when
    several compete for the engine's memory."""

    mode: Mode | None = None
    priority: Annotated[int, Field(ge=-1000, le=1000, strict=True)] | None = None


class FileOptions(_Body):
    """The `foreword` object of a file: the groups that may see it; empty for everyone."""

    access: _Groups | None = None


class SearchOptions(_Body):
    """The `foreword` object of a search: whom it is for, and how to search."""

    groups: _Groups = []
    mode: Literal["hybrid", "vector", "lexical"] = "hybrid"
    rerank: StrictBool = False


class VectorStoreCreate(_Body):
    """The body of `POST /v1/vector_stores`."""

    name: Name | None = None
    file_ids: Annotated[list[str], Field(max_length=500)] = []
    metadata: Metadata | None = None
    expires_after: ExpiresAfter | None = None
    chunking_strategy: Chunking | None = None
    foreword: StoreOptions = StoreOptions()


class VectorStoreModify(_Body):
    """The body of `POST /v1/vector_stores/{id}`: what is left out stays as it is."""

    name: Name | None = None
    metadata: Metadata | None = None
    expires_after: ExpiresAfter | None = None
    foreword: StoreOptions = StoreOptions()

    def changes(self) -> dict[str, Any]:
        """The arguments of `Collections.modify` that were given."""
        given: dict[str, Any] = {}
        if self.name is not None:
            given["name"] = self.name
        if "metadata" in self.model_fields_set:
            given["metadata"] = self.metadata or {}
        if "expires_after" in self.model_fields_set:
            given["expires_after_days"] = self.expires_after.days if self.expires_after else None
        if "mode" in self.foreword.model_fields_set:
            given["mode"] = self.foreword.mode.value if self.foreword.mode else None
        if self.foreword.priority is not None:
            given["priority"] = self.foreword.priority
        return given


class VectorStoreFileCreate(_Body):
    """The body of `POST /v1/vector_stores/{id}/files`, and a file of a batch."""

    file_id: str
    attributes: Attributes | None = None
    chunking_strategy: Chunking | None = None
    foreword: FileOptions = FileOptions()


class VectorStoreFileUpdate(_Body):
    """The body of `POST /v1/vector_stores/{id}/files/{file_id}`: attributes are replaced."""

    attributes: Attributes | None
    foreword: FileOptions = FileOptions()


class FileBatchCreate(_Body):
    """The body of `POST /v1/vector_stores/{id}/file_batches`."""

    file_ids: Annotated[list[str], Field(min_length=1, max_length=2000)] | None = None
    files: Annotated[list[VectorStoreFileCreate], Field(min_length=1, max_length=2000)] | None = (
        None
    )
    attributes: Attributes | None = None
    chunking_strategy: Chunking | None = None
    foreword: FileOptions = FileOptions()

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if (self.file_ids is None) == (self.files is None):
            raise ValueError("give either file_ids or files")
        if self.files is not None and self.model_fields_set - {"files"}:
            raise ValueError("with files, each of them has its own attributes and options")
        named: set[str] = set()
        for file in self.files or []:
            if file.file_id in named:
                raise ValueError(f"{file.file_id!r} is named twice")
            named.add(file.file_id)
        return self

    def each(self) -> list[VectorStoreFileCreate]:
        """Its files, each with its attributes."""
        if self.files is not None:
            return self.files
        common = self.model_dump(exclude={"files", "file_ids"}, exclude_unset=True)
        return [
            VectorStoreFileCreate.model_validate({"file_id": file_id, **common})
            for file_id in self.file_ids or []
        ]


class RankingOptions(_Body):
    """How results are ranked, and the least score that one must have."""

    ranker: Literal["none", "auto", "default-2024-11-15"] | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.0


class VectorStoreSearch(_Body):
    """The body of `POST /v1/vector_stores/{id}/search`."""

    query: _Query | Annotated[list[_Query], Field(min_length=1, max_length=16)]
    filters: dict[str, Any] | None = None
    max_num_results: Annotated[int, Field(ge=1, le=50, strict=True)] = 10
    ranking_options: RankingOptions = RankingOptions()
    rewrite_query: StrictBool = False
    foreword: SearchOptions = SearchOptions()

    @property
    def queries(self) -> list[str]:
        """All of its queries."""
        return [self.query] if isinstance(self.query, str) else self.query


def check_chunking(strategy: Chunking | None, *, chunk_tokens: int) -> None:
    """Refuse sizes that this deployment doesn't cut by.

    Raises:
        InvalidRequestError: says how it cuts.
    """
    if not isinstance(strategy, StaticChunking):
        return
    if strategy.static == ChunkSizes(max_chunk_size_tokens=chunk_tokens, chunk_overlap_tokens=0):
        return
    raise InvalidRequestError(
        f"here all files are cut by their structure into passages of at most {chunk_tokens} tokens "
        "without overlap (FOREWORD_RETRIEVAL__CHUNK_TOKENS); leave chunking_strategy out",
        param="chunking_strategy",
    )


def check_search(search: VectorStoreSearch) -> None:
    """Refuse what would be left undone.

    Raises:
        InvalidRequestError: a rewritten query is asked for.
    """
    if search.rewrite_query:
        raise InvalidRequestError(
            "queries are searched for as they are given: leave rewrite_query out, and rewrite the "
            "query yourself if it must be",
            param="rewrite_query",
        )
