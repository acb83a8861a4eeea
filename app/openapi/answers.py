"""Schemas of what the routes answer, by name. Fields beyond those named are allowed everywhere."""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
OBJECT: Schema = {"type": "object"}


def ref(name: str) -> Schema:
    """A schema by its name in the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def const(text: str) -> Schema:
    return {"type": "string", "const": text}


def shape(**required: Schema) -> Schema:
    """An object that has all of these."""
    return {"type": "object", "properties": required, "required": list(required)}


def _list_of(items: Schema) -> Schema:
    """OpenAI's list, with its cursors."""
    return shape(
        object=const("list"),
        data=listed(items),
        first_id=or_null(TEXT),
        last_id=or_null(TEXT),
        has_more=FLAG,
    )


def _deleted(kind: str) -> Schema:
    return shape(id=TEXT, object=const(kind), deleted={"type": "boolean", "const": True})


_FILE_COUNTS = shape(in_progress=COUNT, completed=COUNT, failed=COUNT, cancelled=COUNT, total=COUNT)
_USAGE = shape(
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    total_tokens=COUNT,
    prompt_tokens_details=or_null(shape(cached_tokens=or_null(COUNT))),
)
_LISTED_MODEL = shape(
    id=TEXT, object=const("model"), created=COUNT, owned_by=TEXT, max_model_len=or_null(COUNT)
)

_KEY = shape(
    id=TEXT,
    object=const("foreword.key"),
    tenant=TEXT,
    name=TEXT,
    role=TEXT,
    status=TEXT,
    created_at=or_null(COUNT),
    expires_at=or_null(COUNT),
)

_AGENT_RUN = shape(
    id=TEXT,
    object=const("foreword.agent.run"),
    agent=TEXT,
    status=TEXT,
    reason=or_null(TEXT),
    created_at=COUNT,
    ended_at=or_null(COUNT),
    conversation_id=or_null(TEXT),
    seconds=NUMBER,
    waiting=listed(shape(run_id=TEXT, call_id=TEXT, name=TEXT, arguments=TEXT)),
    sub_agents=listed(shape(id=TEXT, agent=TEXT, status=TEXT)),
    prompt_tokens=or_null(COUNT),
    ideal_tokens=or_null(COUNT),
    cached_tokens=or_null(COUNT),
    steps=listed(OBJECT),
    calls=listed(shape(step=COUNT, call_id=TEXT, name=TEXT, state=TEXT, attempts=COUNT)),
)

ANSWERS: dict[str, Schema] = {
    "Error": shape(
        error=shape(message=TEXT, type=TEXT, param=or_null(TEXT), code=or_null(TEXT)),
    ),
    "Usage": _USAGE,
    "ChatCompletion": shape(
        id=TEXT,
        object=const("chat.completion"),
        created=COUNT,
        model=TEXT,
        choices=listed(shape(index=COUNT, message=OBJECT, finish_reason=or_null(TEXT))),
        usage=ref("Usage"),
        foreword=OBJECT,
    ),
    "Completion": shape(
        id=TEXT,
        object=const("text_completion"),
        created=COUNT,
        model=TEXT,
        choices=listed(shape(index=COUNT, text=TEXT, finish_reason=or_null(TEXT))),
        usage=ref("Usage"),
        foreword=OBJECT,
    ),
    "Response": shape(
        id=TEXT,
        object=const("response"),
        created_at=COUNT,
        status=TEXT,
        model=TEXT,
        output=listed(OBJECT),
        usage=or_null(OBJECT),
        foreword=OBJECT,
    ),
    "InputTokens": shape(object=const("response.input_tokens"), input_tokens=COUNT),
    "ResponseDeleted": _deleted("response"),
    "Conversation": shape(
        id=TEXT, object=const("conversation"), created_at=COUNT, metadata=OBJECT, foreword=OBJECT
    ),
    "Conversations": _list_of(ref("Conversation")),
    "ConversationDeleted": _deleted("conversation.deleted"),
    "Item": shape(id=TEXT, type=TEXT),
    "Items": _list_of(ref("Item")),
    "Embeddings": shape(
        object=const("list"),
        data=listed(
            shape(
                object=const("embedding"),
                index=COUNT,
                embedding={"anyOf": [TEXT, listed(NUMBER)]},
            )
        ),
        model=TEXT,
        usage=shape(prompt_tokens=COUNT, total_tokens=COUNT),
    ),
    "Model": _LISTED_MODEL,
    "Models": shape(object=const("list"), data=listed(ref("Model"))),
    "File": shape(
        id=TEXT,
        object=const("file"),
        bytes=COUNT,
        created_at=COUNT,
        filename=TEXT,
        purpose=TEXT,
        status=TEXT,
    ),
    "Files": _list_of(ref("File")),
    "FileDeleted": _deleted("file"),
    "Batch": shape(
        id=TEXT,
        object=const("batch"),
        endpoint=TEXT,
        input_file_id=TEXT,
        completion_window=const("24h"),
        status=TEXT,
        output_file_id=or_null(TEXT),
        error_file_id=or_null(TEXT),
        created_at=COUNT,
        expires_at=COUNT,
        request_counts=shape(total=COUNT, completed=COUNT, failed=COUNT),
        metadata=or_null(OBJECT),
    ),
    "Batches": _list_of(ref("Batch")),
    "VectorStore": shape(
        id=TEXT,
        object=const("vector_store"),
        created_at=COUNT,
        name=TEXT,
        usage_bytes=COUNT,
        file_counts=_FILE_COUNTS,
        status=TEXT,
        metadata=OBJECT,
        foreword=OBJECT,
    ),
    "VectorStores": _list_of(ref("VectorStore")),
    "VectorStoreDeleted": _deleted("vector_store.deleted"),
    "VectorStoreFile": shape(
        id=TEXT,
        object=const("vector_store.file"),
        created_at=COUNT,
        vector_store_id=TEXT,
        usage_bytes=COUNT,
        status=TEXT,
        last_error=or_null(shape(code=TEXT, message=TEXT)),
        attributes=OBJECT,
        foreword=OBJECT,
    ),
    "VectorStoreFiles": _list_of(ref("VectorStoreFile")),
    "VectorStoreFileDeleted": _deleted("vector_store.file.deleted"),
    "VectorStoreFileBatch": shape(
        id=TEXT,
        object=const("vector_store.files_batch"),
        created_at=COUNT,
        vector_store_id=TEXT,
        status=TEXT,
        file_counts=_FILE_COUNTS,
    ),
    "FileContent": shape(data=listed(shape(type=TEXT, text=TEXT)), has_more=FLAG),
    "SearchResults": shape(
        object=const("vector_store.search_results.page"),
        search_query=listed(TEXT),
        data=listed(
            shape(
                file_id=TEXT,
                filename=TEXT,
                score=NUMBER,
                attributes=OBJECT,
                content=listed(shape(type=TEXT, text=TEXT)),
                foreword=OBJECT,
            )
        ),
        has_more=FLAG,
    ),
    "Collection": shape(
        id=TEXT,
        object=const("foreword.collection"),
        name=TEXT,
        revision=COUNT,
        corpus=or_null(OBJECT),
        last_decision=or_null(OBJECT),
    ),
    "CollectionList": shape(object=const("list"), data=listed(ref("Collection"))),
    "Sync": shape(
        object=const("foreword.sync"),
        vector_store_id=TEXT,
        added=listed(TEXT),
        replaced=listed(TEXT),
        unchanged=listed(TEXT),
        removed=listed(TEXT),
        failed=OBJECT,
    ),
    "Liveness": shape(status=const("ok")),
    "Readiness": shape(status=TEXT, reasons=listed(TEXT)),
    "Templates": shape(data=listed(shape(name=TEXT, version=COUNT))),
    "Template": shape(
        object=const("foreword.template"),
        name=TEXT,
        version=COUNT,
        reference=TEXT,
        fingerprint=or_null(TEXT),
        scaffold_tokens=or_null(COUNT),
        changed_on_disk=or_null(FLAG),
        variables=listed(shape(name=TEXT, type=TEXT, volatility=TEXT, optional=FLAG)),
        segments=listed(
            shape(
                id=TEXT,
                role=or_null(TEXT),
                volatility=TEXT,
                line=COUNT,
                text=or_null(TEXT),
                messages=or_null(TEXT),
                uses=listed(TEXT),
                tokens=or_null(COUNT),
            )
        ),
        lint=or_null(
            shape(
                findings=listed(
                    shape(
                        code=TEXT,
                        name=TEXT,
                        severity=TEXT,
                        message=TEXT,
                        line=COUNT,
                        segment=or_null(TEXT),
                        cost=or_null(OBJECT),
                    )
                ),
                skipped_rules=listed(TEXT),
                rules=OBJECT,
            )
        ),
    ),
    "TenantKvDeleted": shape(
        tenant=TEXT,
        object=const("foreword.tenant_kv.deleted"),
        deleted=FLAG,
        epoch=COUNT,
        pending=COUNT,
    ),
    "TenantLimits": OBJECT,
    "Key": _KEY,
    "CreatedKey": {"allOf": [ref("Key"), shape(key=TEXT)]},
    "Keys": _list_of(ref("Key")),
    "AuditLog": shape(
        object=const("list"),
        data=listed(shape(id=COUNT, object=const("foreword.audit_entry"), action=TEXT)),
        has_more=FLAG,
    ),
    "Replica": shape(
        name=TEXT, object=const("foreword.replica"), url=TEXT, state=TEXT, load=OBJECT
    ),
    "Replicas": shape(object=const("list"), data=listed(ref("Replica"))),
    "ReplicaDeleted": shape(
        name=TEXT, object=const("foreword.replica.deleted"), deleted={"type": "boolean"}
    ),
    "QualityKept": shape(scores=OBJECT, switches=OBJECT),
    "ResponseCache": shape(
        object=const("foreword.response_cache"),
        enabled=FLAG,
        tenant=or_null(TEXT),
        answers=COUNT,
        bytes=COUNT,
    ),
    "ResponseCacheDeleted": shape(
        object=const("foreword.response_cache"), tenant=TEXT, deleted=COUNT
    ),
    "Agents": _list_of(
        shape(
            id=TEXT,
            object=const("foreword.agent"),
            version=COUNT,
            description=TEXT,
            template=TEXT,
            tools=listed(TEXT),
            limits=OBJECT,
        )
    ),
    "AgentRuns": _list_of(_AGENT_RUN),
    "AgentRun": _AGENT_RUN,
    "Shadow": shape(
        object=const("foreword.shadow"),
        enabled=FLAG,
        target=or_null(TEXT),
        requests=COUNT,
        compared=COUNT,
        errors=OBJECT,
        ttft=or_null(OBJECT),
        e2e=or_null(OBJECT),
        hit_rate=or_null(OBJECT),
        answers=or_null(OBJECT),
        since_start=or_null(OBJECT),
    ),
}
