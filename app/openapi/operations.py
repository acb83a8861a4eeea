"""Which operation takes and gives what. One table; a test holds it against the routes."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.agents.bodies import Decision
from app.completions import CompletionRequest
from app.openapi.answers import OBJECT, TEXT, Schema, ref
from app.openapi.bodies import SYNC, UPLOAD, body_ref
from app.responses.bodies import ResponsesRequest
from app.responses.counting import InputTokensRequest
from app.routes.batches import BatchCreate
from app.routes.embeddings import EmbeddingsRequest
from app.routes.keys import KeyCreate, KeyRotate
from app.routes.plan import QualityBody
from app.routes.replicas import NewReplica
from app.routes.tenants import LimitsBody
from app.schemas import ChatCompletionRequest
from app.stored.bodies import (
    ConversationCreate,
    ConversationFork,
    ConversationUpdate,
    ItemsCreate,
)
from app.vector_stores.bodies import (
    FileBatchCreate,
    VectorStoreCreate,
    VectorStoreFileCreate,
    VectorStoreFileUpdate,
    VectorStoreModify,
    VectorStoreSearch,
)

JSON = "application/json"
_EVENTS = "text/event-stream"
_FORM = "multipart/form-data"
_BYTES: Schema = {"type": "string", "format": "binary"}

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    Attributes:
        answers: media type → schema of the answer, where all is well.
        status: of that answer.
        body: what it takes; None: nothing.
        body_type: the body's media type.
        further: other answers that are no errors of OpenAI's shape, status → schema.
    """

    answers: Mapping[str, Schema]
    status: int = 200
    body: Schema | None = None
    body_type: str = JSON
    further: Mapping[int, Schema] | None = None


def _gives(name: str, body: Schema | None = None, *, status: int = 200) -> Operation:
    return Operation(answers={JSON: ref(name)}, body=body, status=status)


def _streams(name: str, body: Schema) -> Operation:
    return Operation(answers={JSON: ref(name), _EVENTS: TEXT}, body=body)


_TALK = "/v1/conversations/{conversation_id}"
_STORE = "/v1/vector_stores/{store_id}"
_RUN = "/foreword/agents/runs/{run_id}"
_BATCH = f"{_STORE}/file_batches/{{batch_id}}"

OPERATIONS: Mapping[Key, Operation] = {
    ("post", "/v1/chat/completions"): _streams("ChatCompletion", body_ref(ChatCompletionRequest)),
    ("post", "/v1/completions"): _streams("Completion", body_ref(CompletionRequest)),
    ("post", "/v1/responses"): _streams("Response", body_ref(ResponsesRequest)),
    ("post", "/v1/responses/input_tokens"): _gives("InputTokens", body_ref(InputTokensRequest)),
    ("get", "/v1/responses/{response_id}"): Operation(
        answers={JSON: ref("Response"), _EVENTS: TEXT}
    ),
    ("post", "/v1/responses/{response_id}/cancel"): _gives("Response"),
    ("delete", "/v1/responses/{response_id}"): _gives("ResponseDeleted"),
    ("get", "/v1/responses/{response_id}/input_items"): _gives("Items"),
    ("post", "/v1/conversations"): _gives("Conversation", body_ref(ConversationCreate)),
    ("get", _TALK): _gives("Conversation"),
    ("post", _TALK): _gives("Conversation", body_ref(ConversationUpdate)),
    ("delete", _TALK): _gives("ConversationDeleted"),
    ("get", f"{_TALK}/items"): _gives("Items"),
    ("post", f"{_TALK}/items"): _gives("Items", body_ref(ItemsCreate)),
    ("get", f"{_TALK}/items/{{item_id}}"): _gives("Item"),
    ("delete", f"{_TALK}/items/{{item_id}}"): _gives("Conversation"),
    ("get", "/foreword/conversations"): _gives("Conversations"),
    ("post", "/foreword/conversations/{conversation_id}/fork"): _gives(
        "Conversation", body_ref(ConversationFork), status=201
    ),
    ("post", "/v1/embeddings"): _gives("Embeddings", body_ref(EmbeddingsRequest)),
    ("get", "/v1/models"): _gives("Models"),
    ("get", "/v1/models/{name}"): _gives("Model"),
    ("post", "/v1/files"): Operation(answers={JSON: ref("File")}, body=UPLOAD, body_type=_FORM),
    ("get", "/v1/files"): _gives("Files"),
    ("get", "/v1/files/{file_id}"): _gives("File"),
    ("delete", "/v1/files/{file_id}"): _gives("FileDeleted"),
    ("get", "/v1/files/{file_id}/content"): Operation(answers={"application/octet-stream": _BYTES}),
    ("post", "/v1/batches"): _gives("Batch", body_ref(BatchCreate)),
    ("get", "/v1/batches"): _gives("Batches"),
    ("get", "/v1/batches/{batch}"): _gives("Batch"),
    ("post", "/v1/batches/{batch}/cancel"): _gives("Batch"),
    ("post", "/v1/vector_stores"): _gives("VectorStore", body_ref(VectorStoreCreate)),
    ("get", "/v1/vector_stores"): _gives("VectorStores"),
    ("get", _STORE): _gives("VectorStore"),
    ("post", _STORE): _gives("VectorStore", body_ref(VectorStoreModify)),
    ("delete", _STORE): _gives("VectorStoreDeleted"),
    ("post", f"{_STORE}/search"): _gives("SearchResults", body_ref(VectorStoreSearch)),
    ("post", f"{_STORE}/files"): _gives("VectorStoreFile", body_ref(VectorStoreFileCreate)),
    ("get", f"{_STORE}/files"): _gives("VectorStoreFiles"),
    ("get", f"{_STORE}/files/{{file_id}}"): _gives("VectorStoreFile"),
    ("post", f"{_STORE}/files/{{file_id}}"): _gives(
        "VectorStoreFile", body_ref(VectorStoreFileUpdate)
    ),
    ("delete", f"{_STORE}/files/{{file_id}}"): _gives("VectorStoreFileDeleted"),
    ("get", f"{_STORE}/files/{{file_id}}/content"): _gives("FileContent"),
    ("post", f"{_STORE}/file_batches"): _gives("VectorStoreFileBatch", body_ref(FileBatchCreate)),
    ("get", _BATCH): _gives("VectorStoreFileBatch"),
    ("post", f"{_BATCH}/cancel"): _gives("VectorStoreFileBatch"),
    ("get", f"{_BATCH}/files"): _gives("VectorStoreFiles"),
    ("get", "/foreword/collections"): _gives("CollectionList"),
    ("get", "/foreword/collections/{name}"): _gives("Collection"),
    ("post", "/foreword/collections/{name}/warm"): _gives("Collection", status=202),
    ("post", "/foreword/collections/{name}/sync"): Operation(
        answers={JSON: ref("Sync")}, body=SYNC, body_type=_FORM
    ),
    ("get", "/foreword/templates"): _gives("Templates"),
    ("get", "/foreword/templates/{reference}"): _gives("Template"),
    ("get", "/foreword/report"): Operation(
        answers={JSON: OBJECT, "text/plain": TEXT, "text/markdown": TEXT, "text/html": TEXT}
    ),
    ("get", "/foreword/explain/{request_id}"): Operation(
        answers={JSON: OBJECT, "text/plain": TEXT}
    ),
    ("get", "/foreword/agents"): _gives("Agents"),
    ("get", "/foreword/agents/runs"): _gives("AgentRuns"),
    ("get", _RUN): _gives("AgentRun"),
    ("post", f"{_RUN}/decide"): _gives("AgentRun", body_ref(Decision)),
    ("post", f"{_RUN}/cancel"): _gives("AgentRun"),
    ("get", "/foreword/shadow"): _gives("Shadow"),
    ("get", "/foreword/response-cache"): _gives("ResponseCache"),
    ("delete", "/foreword/response-cache"): _gives("ResponseCacheDeleted"),
    ("get", "/foreword/plan"): Operation(answers={JSON: OBJECT, "text/plain": TEXT}),
    ("put", "/foreword/plan/quality/{collection}"): _gives("QualityKept", body_ref(QualityBody)),
    ("delete", "/foreword/tenants/{tenant}/kv"): _gives("TenantKvDeleted"),
    ("get", "/foreword/limits"): _gives("TenantLimits"),
    ("get", "/foreword/tenants/{tenant}/limits"): _gives("TenantLimits"),
    ("put", "/foreword/tenants/{tenant}/limits"): _gives("TenantLimits", body_ref(LimitsBody)),
    ("delete", "/foreword/tenants/{tenant}/limits"): _gives("TenantLimits"),
    ("get", "/foreword/keys"): _gives("Keys"),
    ("post", "/foreword/keys"): _gives("CreatedKey", body_ref(KeyCreate)),
    ("get", "/foreword/keys/{key_id}"): _gives("Key"),
    ("delete", "/foreword/keys/{key_id}"): _gives("Key"),
    ("post", "/foreword/keys/{key_id}/rotate"): _gives("CreatedKey", body_ref(KeyRotate)),
    ("get", "/foreword/audit"): _gives("AuditLog"),
    ("get", "/foreword/replicas"): _gives("Replicas"),
    ("post", "/foreword/replicas"): _gives("Replica", body_ref(NewReplica), status=201),
    ("post", "/foreword/replicas/{name}/cordon"): _gives("Replica"),
    ("post", "/foreword/replicas/{name}/uncordon"): _gives("Replica"),
    ("post", "/foreword/replicas/{name}/drain"): _gives("Replica"),
    ("delete", "/foreword/replicas/{name}"): _gives("ReplicaDeleted"),
    ("get", "/livez"): _gives("Liveness"),
    ("get", "/readyz"): Operation(
        answers={JSON: ref("Readiness")}, further={503: ref("Readiness")}
    ),
    ("get", "/ui"): Operation(answers={}, status=307),
    ("get", "/ui/{path}"): Operation(
        answers={"text/html": TEXT, "text/javascript": TEXT, "text/css": TEXT}
    ),
    ("get", "/metrics"): Operation(answers={"text/plain": TEXT}),
}
