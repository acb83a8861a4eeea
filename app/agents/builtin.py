"""The gateway's own tools: search collections, read a document. Both only look.

They show what the run's tenant may see, and of that what the request's filters and groups leave.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from app.agents.tools import Tool, ToolContext, ToolResult, ToolSpec
from app.errors import InvalidRequestError
from app.problems import sentence_of
from app.schemas import ForewordOptions
from app.settings import RetrievalSettings
from app.turns import SearchOptions
from prompts.agent import BuiltInTool
from prompts.canonical import JSON
from retrieval import CollectionFile, Collections, FileStatus, RetrievalError, ScoredChunk
from retrieval.filters import matches, may_see

# What a document is shown by at a time; about 2,000 tokens of English.
_PAGE_CHARACTERS = 8_000
_LISTED_FILES = 20


class ArgumentsError(Exception):
    """The model's arguments aren't what the tool takes; the sentence is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The collections that a run may look into, and what of them.

    Attributes:
        names: ids or names; the first is meant where none is named.
    """

    collections: Collections
    names: tuple[str, ...]
    looks: SearchOptions

    def chosen(self, arguments: Mapping[str, Any]) -> str:
        """
        Raises:
            ArgumentsError: a collection that isn't on the shelf, or there is none.
        """
        if not self.names:
            raise ArgumentsError("there is no collection to look into: the request names none")
        name = arguments.get("collection", self.names[0])
        if name not in self.names:
            raise ArgumentsError(f"there is no collection {name!r}; there are: {self._listed}")
        return str(name)

    @property
    def _listed(self) -> str:
        return ", ".join(self.names)


def shelf_of(
    collections: Collections,
    settings: RetrievalSettings,
    entry: BuiltInTool,
    options: ForewordOptions | None,
) -> Shelf:
    """What a tool of an agent may see for a request.

    Raises:
        InvalidRequestError: the request's filters aren't in OpenAI's shape, or its collection isn't
            among the agent's.
    """
    options = options or ForewordOptions()
    names = entry.collections
    if options.collection is not None:
        if names and options.collection not in names:
            problem = f"the agent may look into {', '.join(names)}, not {options.collection!r}"
            raise InvalidRequestError(problem, param="foreword.collection")
        # The tool's description stays as it is, and with it the prompt's beginning.
        names = (options.collection, *(name for name in names if name != options.collection))
    passages = options.passages or entry.passages
    looks = SearchOptions.of(settings, options.model_copy(update={"passages": passages}))
    return Shelf(collections=collections, names=names, looks=looks)


class SearchTool:
    """Passages that fit a question."""

    def __init__(self, entry: BuiltInTool, shelf: Shelf) -> None:
        self._shelf = shelf
        self.spec = ToolSpec(
            name="search",
            description="Search the documents. Gives the passages that fit the query best, each "
            "with its document's name.",
            parameters=_parameters({"query": _text("what to look for")}, ("query",), entry),
            idempotent=True,
        )

    async def call(self, arguments: str, run: ToolContext) -> ToolResult:
        """The passages, best first."""
        try:
            given = _arguments(arguments)
            name = self._shelf.chosen(given)
            query = _needed(given, "query")
            found = await anyio.to_thread.run_sync(partial(self._found, name, query, run.tenant))
        except ArgumentsError as error:
            return ToolResult(text=str(error), is_error=True)
        except RetrievalError as error:
            return ToolResult(text=sentence_of(error), is_error=True)
        if not found:
            return ToolResult(text="nothing was found")
        return ToolResult(text="\n\n".join(_passage(scored) for scored in found))

    def _found(self, name: str, query: str, tenant: str) -> list[ScoredChunk]:
        shelf, looks = self._shelf, self._shelf.looks
        collection = shelf.collections.resolve(name, tenant=tenant)
        found = shelf.collections.search(
            collection.id,
            query,
            looks.passages,
            tenant=tenant,
            filters=looks.filters,
            groups=looks.groups,
            rerank=looks.rerank,
        )
        least = looks.score_threshold
        return [each for each in found if least is None or each.score >= least]


class ReadTool:
    """A document's text, a page at a time."""

    def __init__(self, entry: BuiltInTool, shelf: Shelf) -> None:
        self._shelf = shelf
        properties: dict[str, JSON] = {
            "document": _text("its name, as a search tells it"),
            "offset": {
                "type": "integer",
                "minimum": 0,
                "description": "the character to begin at; 0 if left out",
            },
        }
        self.spec = ToolSpec(
            name="read_document",
            description=f"Read a document, {_PAGE_CHARACTERS:,} characters at a time.",
            parameters=_parameters(properties, ("document",), entry),
            idempotent=True,
        )

    async def call(self, arguments: str, run: ToolContext) -> ToolResult:
        """A page of it, and where the next one begins."""
        try:
            given = _arguments(arguments)
            name = self._shelf.chosen(given)
            document, offset = _needed(given, "document"), given.get("offset", 0)
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
                raise ArgumentsError("offset must be a whole number, 0 or more")
            text = await anyio.to_thread.run_sync(partial(self._text, name, document, run.tenant))
        except ArgumentsError as error:
            return ToolResult(text=str(error), is_error=True)
        except RetrievalError as error:
            return ToolResult(text=sentence_of(error), is_error=True)
        end = offset + _PAGE_CHARACTERS
        page = text[offset:end]
        if not page:
            return ToolResult(text=f"the document has {len(text):,} characters", is_error=True)
        more = f"\n\n[goes on at offset {end} of {len(text)}]" if end < len(text) else ""
        return ToolResult(text=page + more)

    def _text(self, name: str, document: str, tenant: str) -> str:
        collections = self._shelf.collections
        collection = collections.resolve(name, tenant=tenant)
        files = collections.list_collection_files(collection.id, tenant=tenant)
        seen = {file.file_id for file in files if self._may_be_read(file)}
        names = {file.id: file.name for file in collections.list_files(tenant=tenant)}
        for file_id in sorted(seen):
            if document in (file_id, names.get(file_id)):
                return collections.file_text(collection.id, file_id, tenant=tenant)
        known = ", ".join(sorted({names[each] for each in seen if each in names})[:_LISTED_FILES])
        raise ArgumentsError(f"there is no document {document!r}; there are: {known or 'none'}")

    def _may_be_read(self, file: CollectionFile) -> bool:
        looks = self._shelf.looks
        return (
            file.status is FileStatus.COMPLETED
            and may_see(file.access, looks.groups)
            and (looks.filters is None or matches(looks.filters, file.attributes))
        )


def built_in(entry: BuiltInTool, shelf: Shelf) -> Tool:
    """The tool of that name."""
    return SearchTool(entry, shelf) if entry.name == "search" else ReadTool(entry, shelf)


def _parameters(
    properties: Mapping[str, JSON], required: Sequence[str], entry: BuiltInTool
) -> dict[str, JSON]:
    made = dict(properties)
    if len(entry.collections) > 1:
        made["collection"] = {"type": "string", "enum": list(entry.collections)}
    return {
        "type": "object",
        "properties": made,
        "required": list(required),
        "additionalProperties": False,
    }


def _text(description: str) -> dict[str, JSON]:
    return {"type": "string", "description": description}


def _arguments(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text or "{}")
    except ValueError as error:
        raise ArgumentsError(f"the arguments are not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ArgumentsError("the arguments must be a JSON object")
    return given


def _needed(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ArgumentsError(f"{name} must be text")
    return value


def _passage(scored: ScoredChunk) -> str:
    chunk = scored.chunk
    heading = " > ".join(chunk.heading_path)
    place = [chunk.name, f"page {chunk.page}" if chunk.page else "", heading]
    return f"[{', '.join(part for part in place if part)}]\n{chunk.text}"
