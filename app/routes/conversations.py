"""`/v1/conversations`: OpenAI's Conversations API; `/foreword/conversations`: list and fork."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from app.admission.counting import counted
from app.callers import tenant_of
from app.paging import list_object
from app.responses.including import Included
from app.routes.bodies import parse_body
from app.services import services_of
from app.stored.bodies import (
    ConversationCreate,
    ConversationFork,
    ConversationUpdate,
    ItemsCreate,
)
from app.stored.expiry import delete_conversation
from app.stored.items import input_items, shown_item
from app.stored.records import Conversation, SaidItem

router = APIRouter(dependencies=[Depends(counted)])


class ItemsQuery(Included):
    """The query of the list of items."""

    after: str | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"


class ConversationsQuery(BaseModel):
    """The query of the list of conversations."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: str | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"


@router.post("/v1/conversations")
async def create(request: Request) -> dict[str, Any]:
    """A new conversation; it is on disk when the answer says so."""
    services = services_of(request)
    body = await parse_body(request, ConversationCreate)
    options = body.foreword
    make = partial(
        services.stored.create,
        tenant=tenant_of(request),
        metadata=body.metadata or {},
        items=input_items(body.items or (), field="items"),
        compaction=options.compaction.compaction if options and options.compaction else None,
        isolated=options.isolated if options else False,
    )
    return conversation_object(await anyio.to_thread.run_sync(make))


@router.get("/v1/conversations/{conversation_id}")
async def one(request: Request, conversation_id: str) -> dict[str, Any]:
    """One conversation, without its items."""
    get = partial(services_of(request).stored.get, conversation_id, tenant=tenant_of(request))
    return conversation_object(await anyio.to_thread.run_sync(get))


@router.post("/v1/conversations/{conversation_id}")
async def update(request: Request, conversation_id: str) -> dict[str, Any]:
    """Replace the metadata; say anew when it is compacted."""
    body = await parse_body(request, ConversationUpdate)
    options = body.foreword
    change = partial(
        services_of(request).stored.update,
        conversation_id,
        tenant=tenant_of(request),
        metadata=body.metadata,
        compaction=options.compaction.compaction if options and options.compaction else None,
        sets_compaction=options is not None and "compaction" in options.model_fields_set,
    )
    return conversation_object(await anyio.to_thread.run_sync(change))


@router.delete("/v1/conversations/{conversation_id}")
async def delete(request: Request, conversation_id: str) -> dict[str, Any]:
    """Forget a conversation: its items, its responses, and KV that only it could address."""
    services = services_of(request)
    get = partial(services.stored.get, conversation_id, tenant=tenant_of(request))
    conversation = await anyio.to_thread.run_sync(get)
    await delete_conversation(services.stored, services.deletions, conversation)
    return {"id": conversation_id, "object": "conversation.deleted", "deleted": True}


@router.get("/v1/conversations/{conversation_id}/items")
async def items(
    request: Request, conversation_id: str, query: Annotated[ItemsQuery, Query()]
) -> dict[str, Any]:
    """The items, newest first unless asked otherwise; also those that a summary stands for."""
    results = query.results
    load = partial(
        services_of(request).stored.items_page,
        conversation_id,
        tenant=tenant_of(request),
        after=query.after,
        limit=query.limit,
        newest_first=query.order == "desc",
    )
    page, has_more = await anyio.to_thread.run_sync(load)
    return _items_object(page, has_more=has_more, results=results)


@router.post("/v1/conversations/{conversation_id}/items")
async def add_items(
    request: Request, conversation_id: str, query: Annotated[Included, Query()]
) -> dict[str, Any]:
    """Append items; they are on disk when the answer says so."""
    results = query.results
    body = await parse_body(request, ItemsCreate)
    add = partial(
        services_of(request).stored.add_items,
        conversation_id,
        input_items(body.items, field="items"),
        tenant=tenant_of(request),
    )
    added = await anyio.to_thread.run_sync(add)
    return _items_object(added, has_more=False, results=results)


@router.get("/v1/conversations/{conversation_id}/items/{item_id}")
async def item(
    request: Request, conversation_id: str, item_id: str, query: Annotated[Included, Query()]
) -> dict[str, Any]:
    """One item."""
    results = query.results
    get = partial(
        services_of(request).stored.item, conversation_id, item_id, tenant=tenant_of(request)
    )
    return shown_item((await anyio.to_thread.run_sync(get)).item, results=results)


@router.delete("/v1/conversations/{conversation_id}/items/{item_id}")
async def delete_item(request: Request, conversation_id: str, item_id: str) -> dict[str, Any]:
    """Take an item out; the next turn computes anew what came after it."""
    remove = partial(
        services_of(request).stored.delete_item,
        conversation_id,
        item_id,
        tenant=tenant_of(request),
    )
    return conversation_object(await anyio.to_thread.run_sync(remove))


@router.get("/foreword/conversations")
async def all_of_them(
    request: Request, query: Annotated[ConversationsQuery, Query()]
) -> dict[str, Any]:
    """The tenant's conversations, newest first unless asked otherwise."""
    load = partial(
        services_of(request).stored.page,
        tenant=tenant_of(request),
        after=query.after,
        limit=query.limit,
        newest_first=query.order == "desc",
    )
    page, has_more = await anyio.to_thread.run_sync(load)
    return list_object([conversation_object(each) for each in page], has_more=has_more)


@router.post("/foreword/conversations/{conversation_id}/fork", status_code=201)
async def fork(request: Request, conversation_id: str) -> dict[str, Any]:
    """A conversation of its own with the items up to one, which then goes its own way.

    What the engine holds of those is re-used by both, unless the conversation is isolated.
    """
    body = await parse_body(request, ConversationFork)
    branch = partial(
        services_of(request).stored.fork,
        conversation_id,
        tenant=tenant_of(request),
        through=body.item,
        metadata=body.metadata,
    )
    return conversation_object(await anyio.to_thread.run_sync(branch))


def conversation_object(conversation: Conversation) -> dict[str, Any]:
    """OpenAI's conversation object, and what Foreword knows of it."""
    compaction, summary = conversation.compaction, conversation.summary
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": int(conversation.created_at),
        "metadata": dict(conversation.metadata),
        "foreword": {
            "used_at": int(conversation.used_at),
            "forked_from": conversation.forked_from,
            "isolated": conversation.isolated,
            "compaction": asdict(compaction) if compaction else None,
            "summary": summary.text if summary else None,
            "tokens": conversation.tokens,
        },
    }


def _items_object(page: list[SaidItem], *, has_more: bool, results: bool) -> dict[str, Any]:
    shown = [shown_item(each.item, results=results) for each in page]
    return list_object(shown, has_more=has_more)
