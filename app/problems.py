"""Errors to HTTP: exception type → status, type and code. One table, one body shape (OpenAI's)."""

from dataclasses import dataclass

from app import errors as gateway
from app.agents import errors as agents
from app.agents.mcp import errors as mcp
from cache import errors as cache
from prompts import errors as prompts
from retrieval import errors as retrieval


@dataclass(frozen=True, slots=True)
class Problem:
    """How an error is told to a client; `code` is OpenAI's where they have one.

    Attributes:
        retry_after_s: when trying again makes sense, where the error itself doesn't know.
        sentence: for clients, where the error's own has the machine's paths or addresses in it.
    """

    status: int
    type: str
    code: str
    retry_after_s: int | None = None
    sentence: str | None = None


_INVALID = "invalid_request_error"
_SERVER = "server_error"
_RATE = "rate_limit_error"
_SOON_S = 2
# An engine that starts, or a gateway that another one takes over from, takes longer than a moment.
_LATER_S = 5
_TEMPLATE = "a prompt template of this deployment is at fault; the gateway's log says where"
_MODEL_FILES = "the model's files here don't let prompts be made; the gateway's log says why"
_STORAGE = "the gateway's disk or database refused the operation, and nothing was changed"
_EMBEDDER = "more waits for the embedding model than it can do in time; try again in a moment"
_RETRIEVAL = "retrieval can't be used now; the gateway's log says why"

# The first row whose class fits holds, so that particular errors stand above general ones.
PROBLEMS: tuple[tuple[type[Exception], Problem], ...] = (
    (gateway.ModelNotFoundError, Problem(404, _INVALID, "model_not_found")),
    (gateway.BodyTooLargeError, Problem(413, _INVALID, "body_too_large")),
    (gateway.GatewayStoppingError, Problem(503, _SERVER, "gateway_stopping", _LATER_S)),
    (gateway.BodiesFullError, Problem(503, _SERVER, "bodies_full")),
    (gateway.ForeignPageError, Problem(403, _INVALID, "foreign_page")),
    (gateway.UnsupportedMediaTypeError, Problem(415, _INVALID, "unsupported_media_type")),
    (gateway.RefusedFieldError, Problem(400, _INVALID, "unsupported_field")),
    (gateway.ContextLengthError, Problem(400, _INVALID, "context_length_exceeded")),
    (gateway.CorpusTooLargeError, Problem(400, _INVALID, "context_length_exceeded")),
    (gateway.CorpusRestrictedError, Problem(400, _INVALID, "collection_restricted")),
    (gateway.OutputLimitError, Problem(400, _INVALID, "output_limit_exceeded")),
    (gateway.PromptLimitError, Problem(400, _INVALID, "prompt_limit_exceeded")),
    (gateway.InvalidRequestError, Problem(400, _INVALID, "invalid_request")),
    (gateway.AuthenticationError, Problem(401, _INVALID, "invalid_api_key")),
    (gateway.PermissionDeniedError, Problem(403, _INVALID, "insufficient_permissions")),
    (gateway.RateLimitError, Problem(429, _RATE, "rate_limit_exceeded")),
    (gateway.QueueFullError, Problem(429, _RATE, "queue_full")),
    (gateway.DeadlineError, Problem(504, _SERVER, "deadline_exceeded", _SOON_S)),
    (gateway.KeyNotFoundError, Problem(404, _INVALID, "key_not_found")),
    (gateway.KeyRefusedError, Problem(400, _INVALID, "key_refused")),
    (gateway.EngineLeaksError, Problem(503, _SERVER, "engine_not_isolated")),
    (gateway.EngineNotReadyError, Problem(503, _SERVER, "engine_not_ready", _LATER_S)),
    (gateway.EngineTimeoutError, Problem(504, _SERVER, "engine_timeout", _LATER_S)),
    (gateway.EngineUnreachableError, Problem(502, _SERVER, "engine_unreachable", _LATER_S)),
    (gateway.EngineProtocolError, Problem(502, _SERVER, "engine_protocol")),
    (gateway.EngineResponseError, Problem(502, _SERVER, "engine_refused")),
    (gateway.ReplicaNotFoundError, Problem(404, _INVALID, "replica_not_found")),
    (gateway.DatabaseAwayError, Problem(503, _SERVER, "database_unavailable")),
    (gateway.DatabaseError, Problem(500, _SERVER, "database_unusable")),
    (gateway.InvalidSettingError, Problem(500, _SERVER, "invalid_setting")),
    (gateway.HomeError, Problem(500, _SERVER, "home_unusable")),
    (gateway.RequestNotFoundError, Problem(404, _INVALID, "request_not_found")),
    (gateway.ResponseNotFoundError, Problem(404, _INVALID, "response_not_found")),
    (gateway.ConversationNotFoundError, Problem(404, _INVALID, "conversation_not_found")),
    (gateway.ConversationItemNotFoundError, Problem(404, _INVALID, "item_not_found")),
    (gateway.ConversationBusyError, Problem(409, _INVALID, "conversation_locked")),
    (gateway.NotStoredError, Problem(503, _SERVER, "turn_not_stored")),
    (agents.RunNotFoundError, Problem(404, _INVALID, "run_not_found")),
    (agents.RunEndedError, Problem(409, _INVALID, "run_ended")),
    (agents.AgentToolsError, Problem(500, _SERVER, "agent_tools_clash")),
    (agents.CallNotWaitingError, Problem(409, _INVALID, "call_not_waiting")),
    (mcp.McpUnavailableError, Problem(503, _SERVER, "mcp_server_unavailable", _LATER_S)),
    (mcp.McpToolsChangedError, Problem(503, _SERVER, "mcp_tools_changed")),
    (mcp.McpError, Problem(503, _SERVER, "mcp_server_refused")),
    (gateway.BatchNotFoundError, Problem(404, _INVALID, "batch_not_found")),
    (gateway.BatchEndedError, Problem(409, _INVALID, "batch_ended")),
    (gateway.WebhookRefusedError, Problem(400, _INVALID, "webhook_refused")),
    (gateway.TierServerError, Problem(502, _SERVER, "tier_server", _LATER_S)),
    (prompts.AgentNotFoundError, Problem(404, _INVALID, "agent_not_found")),
    (prompts.TemplateNotFoundError, Problem(404, _INVALID, "template_not_found")),
    (prompts.MissingVariableError, Problem(400, _INVALID, "missing_variable")),
    (prompts.UnknownVariableError, Problem(400, _INVALID, "unknown_variable")),
    (prompts.UnstableValueError, Problem(400, _INVALID, "unstable_value")),
    (prompts.TranscriptRewriteError, Problem(409, _INVALID, "transcript_rewrite")),
    (prompts.LockFileError, Problem(500, _SERVER, "lock_file_fault", sentence=_TEMPLATE)),
    (prompts.TooManyTokensError, Problem(400, _INVALID, "context_length_exceeded")),
    (prompts.ChatTemplateError, Problem(500, _SERVER, "chat_template")),
    (
        prompts.TokenizerNotFoundError,
        Problem(500, _SERVER, "tokenizer_not_found", sentence=_MODEL_FILES),
    ),
    (prompts.TemplateError, Problem(500, _SERVER, "template_fault", sentence=_TEMPLATE)),
    (retrieval.CollectionNotFoundError, Problem(404, _INVALID, "collection_not_found")),
    (retrieval.CollectionFileNotFoundError, Problem(404, _INVALID, "file_not_found")),
    (retrieval.FileBatchNotFoundError, Problem(404, _INVALID, "file_batch_not_found")),
    (retrieval.CollectionExpiredError, Problem(409, _INVALID, "collection_expired")),
    (retrieval.InvalidCollectionError, Problem(400, _INVALID, "invalid_collection")),
    (retrieval.StoredFileNotFoundError, Problem(404, _INVALID, "file_not_found")),
    (retrieval.AmbiguousCollectionError, Problem(409, _INVALID, "collection_ambiguous")),
    (retrieval.FileTooLargeError, Problem(413, _INVALID, "file_too_large")),
    (retrieval.UnreadableDocumentError, Problem(400, _INVALID, "unreadable_document")),
    (retrieval.NotInListError, Problem(400, _INVALID, "invalid_request")),
    (retrieval.InvalidSearchError, Problem(400, _INVALID, "invalid_search")),
    (retrieval.InvalidFilterError, Problem(400, _INVALID, "invalid_filter")),
    (retrieval.IndexManifestError, Problem(409, _INVALID, "embedder_mismatch")),
    (retrieval.StorageAwayError, Problem(503, _SERVER, "storage_unavailable")),
    (retrieval.StorageError, Problem(507, _SERVER, "storage_refused", sentence=_STORAGE)),
    (retrieval.EmbedderBusyError, Problem(503, _SERVER, "embedder_busy", _SOON_S, _EMBEDDER)),
    (retrieval.StoredFileDamagedError, Problem(503, _SERVER, "retrieval_unavailable")),
    (
        retrieval.RetrievalError,
        Problem(503, _SERVER, "retrieval_unavailable", _LATER_S, _RETRIEVAL),
    ),
    (cache.EngineLoadsError, Problem(502, _SERVER, "engine_protocol")),
    (cache.GpuNotFoundError, Problem(400, _INVALID, "model_not_planned")),
    (cache.ModelConfigError, Problem(400, _INVALID, "model_not_planned")),
    (cache.ModelUnsupportedError, Problem(400, _INVALID, "model_not_planned")),
    (cache.CacheError, Problem(500, _SERVER, "ledger_unavailable")),
)
UNEXPECTED = Problem(
    500,
    _SERVER,
    "internal_error",
    sentence="something went wrong in the gateway; its log has the details",
)


def problem_of(error: Exception) -> Problem:
    """The row of an error; an engine's own 4xx stays a 4xx."""
    if isinstance(error, gateway.EngineResponseError):
        return _engine_refusal(error)
    for kind, problem in PROBLEMS:
        if isinstance(error, kind):
            return problem
    return UNEXPECTED


def error_body(error: Exception) -> dict[str, dict[str, str | None]]:
    """OpenAI's error body. An unexpected error's text stays in the log."""
    problem = problem_of(error)
    return {
        "error": {
            "message": sentence_of(error),
            "type": problem.type,
            "param": getattr(error, "param", None),
            "code": problem.code,
        }
    }


def error_headers(error: Exception) -> dict[str, str]:
    """The headers that an error is told with: when to try again, how the limits stand."""
    headers = dict(getattr(error, "headers", None) or {})
    retry_after_s = problem_of(error).retry_after_s
    if retry_after_s is not None:
        headers.setdefault("retry-after", str(retry_after_s))
    return headers


def sentence_of(error: Exception) -> str:
    """What an error says to a client: `str(error)` has what else is for the log."""
    problem = problem_of(error)
    if problem.sentence is not None:
        return problem.sentence
    return error.told if isinstance(error, gateway.GatewayError) else str(error)


def _engine_refusal(error: gateway.EngineResponseError) -> Problem:
    if error.status == 429:
        return Problem(429, _RATE, "engine_overloaded", _SOON_S)
    if 400 <= error.status < 500:
        return Problem(400, _INVALID, "engine_refused")
    return Problem(502, _SERVER, "engine_refused", _SOON_S)
