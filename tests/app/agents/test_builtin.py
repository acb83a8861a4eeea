"""The gateway's own tools: what they show, and whom they don't."""

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from app.agents.builtin import ReadTool, SearchTool, Shelf, shelf_of
from app.agents.tools import ToolContext
from app.errors import InvalidRequestError
from app.schemas import ForewordOptions
from app.settings import RetrievalSettings
from prompts.agent import BuiltInTool
from retrieval import Collections
from tests.app.agents.shelves import opened_collections

SEARCH, READ = BuiltInTool(name="search"), BuiltInTool(name="read_document")
CONTEXT = ToolContext(tenant="t1", run_id="r", call_id="c", deadline=None)


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collections]:
    """Of two tenants; one document of the first's is for a group only."""
    with opened_collections(tmp_path_factory.mktemp("shelf")) as made:
        for tenant, name, text, access in (
            ("t1", "ferries.md", "The ferry to Arvik leaves at nine. " * 400, ()),
            ("t1", "wages.md", "The captain earns nine hundred crowns.", ("staff",)),
            ("t2", "secret.md", "The ferry of the other tenant is late.", ()),
        ):
            known = {c.name: c.id for c in made.list_all(tenant=tenant)}
            collection = known.get("harbour") or made.create("harbour", tenant=tenant).id
            file = made.save_file(name, text.encode(), "assistants", tenant=tenant)
            attributes = {"kind": name.partition(".")[0]}
            made.add_file(collection, file.id, tenant=tenant, access=access, attributes=attributes)
        yield made


def shelf(collections: Collections, entry: BuiltInTool = SEARCH, **options: Any) -> Shelf:
    given = ForewordOptions(**({"collection": "harbour"} | options))
    return shelf_of(collections, RetrievalSettings(), entry, given)


def searched(shelf: Shelf, arguments: str, context: ToolContext = CONTEXT) -> tuple[str, bool]:
    result = anyio.run(SearchTool(SEARCH, shelf).call, arguments, context)
    return result.text, result.is_error


def read(shelf: Shelf, arguments: str, context: ToolContext = CONTEXT) -> tuple[str, bool]:
    result = anyio.run(ReadTool(READ, shelf).call, arguments, context)
    return result.text, result.is_error


def test_a_search_shows_passages_with_their_documents(collections: Collections) -> None:
    text, is_error = searched(shelf(collections, passages=1), '{"query": "ferry to Arvik"}')
    assert not is_error
    assert text.startswith("[ferries.md")
    assert "The ferry to Arvik leaves at nine." in text


def test_a_document_is_read_a_page_at_a_time(collections: Collections) -> None:
    whole, offset = "", 0
    while True:
        arguments = json.dumps({"document": "ferries.md", "offset": offset})
        page, is_error = read(shelf(collections), arguments)
        assert not is_error
        body, _, more = page.partition("\n\n[goes on at offset ")
        whole += body
        if not more:
            break
        offset = int(more.split(" ")[0])
    assert whole.strip() == ("The ferry to Arvik leaves at nine. " * 400).strip()
    assert offset > 0
    beyond = json.dumps({"document": "ferries.md", "offset": 10**6})
    assert read(shelf(collections), beyond)[1]


def test_what_a_tenant_or_an_asker_may_not_see_is_not_there(collections: Collections) -> None:
    staff = shelf(collections, groups=["staff"])
    hidden = shelf(collections)
    wages = '{"document": "wages.md"}'
    assert read(staff, wages)[0] == "The captain earns nine hundred crowns."
    text, is_error = read(hidden, wages)
    assert (is_error, text) == (True, "there is no document 'wages.md'; there are: ferries.md")
    assert "captain" not in searched(hidden, '{"query": "captain earns"}')[0]
    assert "captain" in searched(staff, '{"query": "captain earns"}')[0]
    other = ToolContext(tenant="t2", run_id="r", call_id="c", deadline=None)
    assert "Arvik" not in searched(staff, '{"query": "ferry"}', other)[0]
    assert read(staff, '{"document": "ferries.md"}', other)[1]


def test_the_requests_filters_hold(collections: Collections) -> None:
    kind = {"type": "eq", "key": "kind", "value": "wages"}
    narrow = shelf(collections, groups=["staff"], filters=kind)
    assert read(narrow, '{"document": "ferries.md"}')[1]
    assert "Arvik" not in searched(narrow, '{"query": "ferry to Arvik"}')[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "must be text"),
        ('{"query": " ", "document": " "}', "must be text"),
        ('{"query": "x", "document": "x", "collection": "attic"}', "no collection 'attic'"),
    ],
)
def test_arguments_that_cant_be_taken_are_told_to_the_model(
    collections: Collections, arguments: str, said: str
) -> None:
    for ask in (searched, read):
        text, is_error = ask(shelf(collections), arguments)
        assert is_error
        assert said in text


def test_offsets_are_whole_numbers(collections: Collections) -> None:
    for offset in ("-1", "true", '"1"', "1.5"):
        arguments = f'{{"document": "ferries.md", "offset": {offset}}}'
        assert "whole number" in read(shelf(collections), arguments)[0]


def test_an_agents_collections_bound_a_requests(collections: Collections) -> None:
    entry = BuiltInTool(name="search", collections=("harbour", "letters"))
    assert shelf(collections, entry).names == ("harbour", "letters")
    with pytest.raises(InvalidRequestError, match="may look into harbour, letters"):
        shelf(collections, entry, collection="attic")
    nothing = shelf_of(collections, RetrievalSettings(), SEARCH, None)
    assert "names none" in searched(nothing, '{"query": "x"}')[0]
    chosen = SearchTool(entry, shelf(collections, entry)).spec.parameters["properties"]
    assert isinstance(chosen, dict)
    assert chosen["collection"] == {"type": "string", "enum": ["harbour", "letters"]}


def test_a_collection_that_is_gone_is_told_to_the_model(collections: Collections) -> None:
    text, is_error = searched(shelf(collections, collection="nowhere"), '{"query": "x"}')
    assert is_error
    assert "nowhere" in text
