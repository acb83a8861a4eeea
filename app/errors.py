"""What can go wrong in the gateway.

```
GatewayError
├── InvalidRequestError          (param)          the client's request is at fault
│   ├── ModelNotFoundError       (model, known)
│   ├── BodyTooLargeError        (limit_bytes)
│   ├── BodiesFullError          (limit_bytes)    those under way fill the memory for them
│   ├── ForeignPageError         (header, value, setting) a web page of somebody else
│   ├── UnsupportedMediaTypeError (expected)      a body of another kind
│   ├── RefusedFieldError        (field)          steers the engine or another tenant
│   ├── ContextLengthError       (prompt_tokens, completion_tokens, limit)
│   │   └── ConversationTooLongError (conversation)
│   ├── ResponseNotInBackgroundError (response_id, wanted) its client waited for it
│   ├── OutputLimitError         (requested, limit)
│   ├── PromptLimitError         (prompt_tokens, limit)
│   ├── CorpusTooLargeError      (collection, prompt_tokens, limit)
│   └── CorpusRestrictedError    (collection)     not everybody may see all of it
├── GatewayStoppingError                          the gateway ends before the request does
├── AuthenticationError          (problem)        no key, or one that doesn't hold
├── PermissionDeniedError        (role, needed)
├── AdmissionError               (retry_after_s)  not now
│   ├── RateLimitError           (what, limit, requested)
│   ├── QueueFullError           (queued)
│   └── DeadlineError            (deadline_s, waited_s)
├── KeyNotFoundError             (key_id)
├── KeyRefusedError              (problem)        a key that may not be made or changed so
├── EngineError                  (engine)
│   ├── EngineUnreachableError   (problem)
│   ├── EngineTimeoutError       (phase, after_s)
│   ├── EngineResponseError      (status, message, param)
│   ├── EngineProtocolError      (problem)
│   └── EngineNotReadyError                       none takes requests now
│       └── EngineLeaksError     (evidence)       it serves one tenant's KV to another
├── ReplicaNotFoundError         (name, known)
├── DatabaseError                (url, problem)
├── DatabaseAwayError            (problem)        away, locked or full, while it is used
├── HomeError                    (path, problem)
├── InvalidSettingError          (setting, problem)
├── RequestNotFoundError         (request_id, kept_days)
├── ResponseNotFoundError        (response_id)
├── BatchNotFoundError           (batch_id)
├── BatchEndedError              (batch_id, status)
├── WebhookRefusedError          (url, problem)   an address that mayn't be asked
├── ConversationNotFoundError    (conversation_id)
├── ConversationItemNotFoundError (conversation_id, item_id)
├── ConversationBusyError        (conversation_id, response_id) another turn is under way
├── NotStoredError               (problem)        the answer is there, and can't be kept
└── TierServerError              (url, problem)
```
"""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TypeAlias


class GatewayError(Exception):
    """Root of the gateway's own errors."""

    @property
    def told(self) -> str:
        """The sentence for clients. Addresses, paths and commands of the operator's are for the
        log, which has `str` of the error."""
        return str(self)


class GatewayStoppingError(GatewayError):
    """The gateway was told to stop, and the request took longer than it waits."""

    def __str__(self) -> str:
        return (
            "the gateway is stopping, and the request was cut before its answer was complete; send "
            "it again in a few seconds"
        )


class InvalidRequestError(GatewayError):
    """The request is at fault; `param` names the field in OpenAI's way, where there is one."""

    def __init__(self, problem: str, *, param: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.param = param

    def __str__(self) -> str:
        return self.problem


class ModelNotFoundError(InvalidRequestError):
    """No such model here."""

    def __init__(self, model: str, known: Sequence[str]) -> None:
        names = ", ".join(known)
        super().__init__(f"the model {model!r} is not served here; there are: {names}")
        self.model = model
        self.known = tuple(known)
        self.param = "model"


class AgentElsewhereError(InvalidRequestError):
    """An agent was named where only a model can answer."""

    def __init__(self, model: str) -> None:
        super().__init__(f"{model!r} is an agent: ask it at /v1/responses", param="model")
        self.model = model


class BodyTooLargeError(InvalidRequestError):
    """The request's body is larger than this deployment takes."""

    def __init__(self, limit_bytes: int, setting: str = "GATEWAY__MAX_BODY_BYTES") -> None:
        super().__init__(
            f"the body is larger than {limit_bytes:,} bytes; send less, or raise FOREWORD_{setting}"
        )
        self.limit_bytes = limit_bytes


class BodiesFullError(InvalidRequestError):
    """The bodies of the requests under way take all the memory that there is for bodies."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"the requests under way hold {limit_bytes:,} bytes, which is all that there is for "
            "bodies; try again in a moment"
        )
        self.limit_bytes = limit_bytes
        self.headers = {"retry-after": "1"}


class ForeignPageError(InvalidRequestError):
    """A browser sent this for a page that isn't the gateway's, and no key is needed here."""

    def __init__(self, header: str, value: str, setting: str) -> None:
        shown = value[:100]
        super().__init__(
            f"{header} {shown!r} is not this gateway's, and without API keys no other web page may "
            f"use it; make a key with `foreword keys create`, or name it in {setting}"
        )
        self.header = header
        self.value = value
        self.setting = setting


class UnsupportedMediaTypeError(InvalidRequestError):
    """The body is of another kind than the route takes."""

    def __init__(self, expected: str) -> None:
        super().__init__(f"the body must be {expected}")
        self.expected = expected


class RefusedFieldError(InvalidRequestError):
    """A field that only the gateway may set, or that it doesn't know."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"the field {field!r} is refused: {reason}")
        self.field = field
        self.param = field


class ContextLengthError(InvalidRequestError):
    """Prompt and answer don't fit the model's window.

    `prompt_tokens` is None where they weren't counted to the end: they are more than `limit`.
    """

    def __init__(self, prompt_tokens: int | None, completion_tokens: int, limit: int) -> None:
        counted = f"more than {limit}" if prompt_tokens is None else prompt_tokens
        super().__init__(
            f"the prompt has {counted} tokens and {completion_tokens} are reserved for the "
            f"answer, but the model's context is {limit} tokens; shorten the messages or lower "
            "max_tokens"
        )
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens
        self.limit = limit
        self.param = "messages"


class ConversationTooLongError(ContextLengthError):
    """A stored conversation has grown beyond the model's window; `conversation` names it."""

    def __init__(self, conversation: str, cause: ContextLengthError) -> None:
        super().__init__(cause.prompt_tokens, cause.completion_tokens, cause.limit)
        self.conversation = conversation
        self.param = "input"

    def __str__(self) -> str:
        counted = self.prompt_tokens
        tokens = f"more than {self.limit:,}" if counted is None else f"{counted:,}"
        return (
            f"{self.conversation} makes a prompt of {tokens} tokens with this input "
            f"and {self.completion_tokens:,} are reserved for the answer, but the model's context "
            f"is {self.limit:,} tokens; fork the conversation at an earlier item, let it be "
            "compacted (foreword.compaction), or lower max_output_tokens"
        )


class CorpusTooLargeError(InvalidRequestError):
    """A whole collection doesn't fit the model's window."""

    def __init__(self, collection: str, prompt_tokens: int, limit: int) -> None:
        super().__init__(
            f"collection {collection!r} makes a prompt of {prompt_tokens:,} tokens with all its "
            f"documents, and the model's context is {limit:,} tokens; ask with mode rag instead"
        )
        self.collection = collection
        self.prompt_tokens = prompt_tokens
        self.limit = limit
        self.param = "foreword.mode"


class CorpusRestrictedError(InvalidRequestError):
    """A collection that not everybody may see all of can't be shown as a whole."""

    def __init__(self, collection: str) -> None:
        super().__init__(
            f"collection {collection!r} holds files that only some groups may see, so it can't be "
            "shown as a whole; ask with mode rag instead"
        )
        self.collection = collection
        self.param = "foreword.mode"


class AuthenticationError(GatewayError):
    """The request has no key, or one that doesn't hold."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.problem}; send `Authorization: Bearer fw-…` with a key of this deployment"

    @property
    def headers(self) -> dict[str, str]:
        """What HTTP wants beside a 401."""
        return {"www-authenticate": 'Bearer realm="foreword"'}


class PermissionDeniedError(GatewayError):
    """The key is good, but not for this; `needed` is the role that it takes."""

    def __init__(self, role: str, needed: str) -> None:
        super().__init__(role, needed)
        self.role = role
        self.needed = needed

    def __str__(self) -> str:
        return f"this takes a key with the role {self.needed}, and yours has the role {self.role}"


class AdmissionError(GatewayError):
    """The request isn't taken now; `retry_after_s` is when it may be, None where that is unknown.

    `headers` tell a client how it stands with its limits.
    """

    def __init__(self, retry_after_s: float | None, headers: Mapping[str, str] | None) -> None:
        super().__init__(retry_after_s)
        self.retry_after_s = retry_after_s
        # Whole seconds, and never too early.
        wait = {} if retry_after_s is None else {"retry-after": str(max(1, ceil(retry_after_s)))}
        self.headers = {**(headers or {}), **wait}


class RateLimitError(AdmissionError):
    """A tenant's limit is used up; `what` says of what, as in `requests per minute`."""

    def __init__(
        self,
        what: str,
        limit: int,
        retry_after_s: float | None = None,
        *,
        requested: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(retry_after_s, headers)
        self.what = what
        self.limit = limit
        self.requested = requested

    def __str__(self) -> str:
        reached = f"your limit of {self.limit:,} {self.what} is reached"
        if self.requested is not None and self.requested > self.limit:
            return (
                f"the request may take {self.requested:,} tokens and your limit is {self.limit:,} "
                f"{self.what}: shorten it or lower max_tokens"
            )
        if self.retry_after_s is None:
            return f"{reached}; try again later"
        return f"{reached}; try again in {ceil(self.retry_after_s)} s"


class QueueFullError(AdmissionError):
    """More requests wait than this deployment lets wait."""

    def __init__(self, queued: int, retry_after_s: float) -> None:
        super().__init__(retry_after_s, None)
        self.queued = queued

    def __str__(self) -> str:
        return (
            f"{self.queued:,} requests wait already; try again in {ceil(self.retry_after_s or 1)} s"
        )


class DeadlineError(AdmissionError):
    """The request would not have begun, or did not begin, before its deadline."""

    def __init__(
        self, deadline_s: float, waited_s: float, *, retry_after_s: float | None = None
    ) -> None:
        super().__init__(retry_after_s, None)
        self.deadline_s = deadline_s
        self.waited_s = waited_s

    def __str__(self) -> str:
        return (
            f"the engine had no room for the request within {self.deadline_s:g} s; it waited "
            f"{self.waited_s:.1f} s: try again later or give it a longer deadline"
        )


class OutputLimitError(InvalidRequestError):
    """More output is asked for than the tenant may have in one answer."""

    def __init__(self, requested: int, limit: int) -> None:
        super().__init__(
            f"{requested:,} tokens of output are asked for, and your limit is {limit:,} for one "
            "request: lower max_tokens or n",
            param="max_tokens",
        )
        self.requested = requested
        self.limit = limit


class PromptLimitError(InvalidRequestError):
    """The prompt is longer than the tenant's may be."""

    def __init__(self, prompt_tokens: int, limit: int) -> None:
        super().__init__(
            f"the prompt has {prompt_tokens:,} tokens, and your limit is {limit:,}: shorten the "
            "messages or retrieve less",
            param="messages",
        )
        self.prompt_tokens = prompt_tokens
        self.limit = limit


class KeyNotFoundError(GatewayError):
    """There is no key of that id."""

    def __init__(self, key_id: str) -> None:
        super().__init__(key_id)
        self.key_id = key_id

    def __str__(self) -> str:
        return f"there is no key {self.key_id!r}; `foreword keys list` shows all"


class KeyRefusedError(GatewayError):
    """A key may not be made or changed like that."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class EngineError(GatewayError):
    """The engine at `engine` (its URL) failed."""

    def __init__(self, engine: str) -> None:
        super().__init__(engine)
        self.engine = engine


class EngineUnreachableError(EngineError):
    """No connection, or it broke before the answer began."""

    def __init__(self, engine: str, problem: str) -> None:
        super().__init__(engine)
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the engine at {self.engine} can't be reached ({self.problem}); "
            "`foreword doctor` says what is wrong"
        )

    @property
    def told(self) -> str:
        return "the engine can't be reached now; try again in a few seconds"


class EngineTimeoutError(EngineError):
    """The engine was silent for too long; `phase` is connect, first byte or between bytes."""

    def __init__(self, engine: str, phase: str, after_s: float) -> None:
        super().__init__(engine)
        self.phase = phase
        self.after_s = after_s

    def __str__(self) -> str:
        return f"the engine at {self.engine} was silent for {self.after_s:g} s ({self.phase})"

    @property
    def told(self) -> str:
        return (
            f"the engine was silent for {self.after_s:g} s ({self.phase}); try again in a few "
            "seconds"
        )


class EngineResponseError(EngineError):
    """The engine answered with an error status; `param` names the field that is at fault."""

    def __init__(self, engine: str, status: int, message: str, *, param: str | None = None) -> None:
        super().__init__(engine)
        self.status = status
        self.message = message
        self.param = param

    def __str__(self) -> str:
        return f"the engine refused the request ({self.status}): {self.message}"


class EngineProtocolError(EngineError):
    """The engine's answer is not what SGLang sends."""

    def __init__(self, engine: str, problem: str) -> None:
        super().__init__(engine)
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the engine at {self.engine} sent an answer that can't be understood: {self.problem}"
        )

    @property
    def told(self) -> str:
        return "the engine sent an answer that can't be understood; the gateway's log has it"


class EngineNotReadyError(EngineError):
    """No engine takes requests now: it starts, is away, or is kept from them."""

    def __str__(self) -> str:
        return f"the engine at {self.engine} is not ready yet; try again in a few seconds"

    @property
    def told(self) -> str:
        return "the engine is not ready yet; try again in a few seconds"


class EngineLeaksError(EngineNotReadyError):
    """The engine was seen to serve one salt's KV under another: it gets no requests."""

    def __init__(self, engine: str, evidence: str) -> None:
        super().__init__(engine)
        self.evidence = evidence

    def __str__(self) -> str:
        return (
            f"the engine at {self.engine} gets no requests, since it serves one tenant's KV to "
            f"another ({self.evidence}): use an SGLang that honours cache_salt, with no proxy that "
            "removes it"
        )

    @property
    def told(self) -> str:
        return (
            "the engine gets no requests, since it doesn't keep tenants apart; the operator has to "
            "see to it"
        )


class ReplicaNotFoundError(GatewayError):
    """There is no replica of that name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name)
        self.name = name
        self.known = tuple(known)

    def __str__(self) -> str:
        return f"there is no replica {self.name!r}; there are: {', '.join(self.known) or 'none'}"


class DatabaseError(GatewayError):
    """The database at `url`, told without its password, can't be used."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, problem)
        self.url = url
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the database {self.url} can't be used ({self.problem}); check "
            "FOREWORD_DATABASE__URL, and that the server runs and lets this user make tables"
        )

    @property
    def told(self) -> str:
        return "the database can't be used; the gateway's log says why"


class DatabaseAwayError(GatewayError):
    """The database doesn't do what a request needs of it now. `problem` is for the log."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.headers = {"retry-after": "2"}

    def __str__(self) -> str:
        return (
            "the database can't be used now, so this may not have been done; try again in a few "
            "seconds"
        )


class HomeError(GatewayError):
    """The state folder can't be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path} can't be used: {self.problem}"

    @property
    def told(self) -> str:
        return "a file that the gateway needs can't be used; its log says which"


class InvalidSettingError(GatewayError):
    """A setting doesn't fit what it is used with; `place` is where it was given, if known."""

    def __init__(self, setting: str, problem: str, *, place: str | None = None) -> None:
        super().__init__(setting, problem)
        self.setting = setting
        self.problem = problem
        self.place = place

    def __str__(self) -> str:
        place = self.place or f"FOREWORD_{self.setting.upper().replace('.', '__')}"
        return f"{place}: {self.problem}"

    @property
    def told(self) -> str:
        return "a setting of the gateway's doesn't fit; its log says which"


class RequestNotFoundError(GatewayError):
    """The ledger has no such request."""

    def __init__(self, request_id: str, kept_days: float) -> None:
        super().__init__(request_id, kept_days)
        self.request_id = request_id
        self.kept_days = kept_days

    def __str__(self) -> str:
        return (
            f"no request {self.request_id!r} is in the ledger, which keeps {self.kept_days:g} days;"
            " give the `id` of an answer, also in its x-request-id header"
        )


class ResponseNotFoundError(GatewayError):
    """No such response is kept."""

    def __init__(self, response_id: str) -> None:
        super().__init__(response_id)
        self.response_id = response_id

    def __str__(self) -> str:
        return (
            f"there is no response {self.response_id!r}: it was never stored, was deleted, or its "
            "time is over; send the whole conversation as input"
        )


class ResponseNotInBackgroundError(InvalidRequestError):
    """What can only be done with a response of the background, and of one that is streamed."""

    def __init__(self, response_id: str, wanted: str) -> None:
        self.response_id = response_id
        self.wanted = wanted
        needed = "background" if wanted == "cancelled" else "background and stream"
        super().__init__(
            f"response {response_id} can't be {wanted}: ask for a response with {needed}"
        )


class ConversationNotFoundError(GatewayError):
    """The tenant has no such conversation."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(conversation_id)
        self.conversation_id = conversation_id

    def __str__(self) -> str:
        return (
            f"there is no conversation {self.conversation_id!r}; GET /foreword/conversations "
            "lists yours"
        )


class ConversationItemNotFoundError(GatewayError):
    """The conversation has no such item."""

    def __init__(self, conversation_id: str, item_id: str) -> None:
        super().__init__(conversation_id, item_id)
        self.conversation_id = conversation_id
        self.item_id = item_id

    def __str__(self) -> str:
        return (
            f"conversation {self.conversation_id} has no item {self.item_id!r}; "
            f"GET /v1/conversations/{self.conversation_id}/items lists them"
        )


class ConversationBusyError(GatewayError):
    """Another turn of the conversation is under way; turns come one after the other."""

    def __init__(self, conversation_id: str, response_id: str | None) -> None:
        super().__init__(conversation_id, response_id)
        self.conversation_id = conversation_id
        self.response_id = response_id
        self.headers = {"retry-after": "1"}

    def __str__(self) -> str:
        turn = f" ({self.response_id})" if self.response_id else ""
        return (
            f"conversation {self.conversation_id} is being answered in another turn{turn}: try "
            "again when that is done, or fork it"
        )


class NotStoredError(GatewayError):
    """The answer was made, and can't be kept as it was asked. `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.headers = {"retry-after": "2"}

    def __str__(self) -> str:
        return f"the turn was not stored, and counts as never said: {self.problem}"


AnswerError: TypeAlias = EngineError | NotStoredError | GatewayStoppingError
"""What an answer that has begun may break off with."""


class BatchNotFoundError(GatewayError):
    """The tenant has no such batch."""

    def __init__(self, batch_id: str) -> None:
        super().__init__(f"there is no batch {batch_id!r}; GET /v1/batches lists yours")
        self.batch_id = batch_id


class BatchEndedError(GatewayError):
    """A batch that can't be cancelled any more."""

    def __init__(self, batch_id: str, status: str) -> None:
        super().__init__(f"batch {batch_id!r} is {status}; only one under way can be cancelled")
        self.batch_id = batch_id
        self.status = status


class WebhookRefusedError(GatewayError):
    """A webhook's URL leads where no request of ours may go."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(
            f"the webhook {url[:200]!r} is refused: {problem}; FOREWORD_WEBHOOKS__ALLOW_PRIVATE "
            "takes those of your own network"
        )
        self.url = url
        self.problem = problem


class TierServerError(GatewayError):
    """The tier server didn't do what it was asked; no request depends on it."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, problem)
        self.url = url
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the tier server at {self.url} can't be asked ({self.problem}); check "
            "FOREWORD_TIERS__URL, or __URLS or __PORT, and its log"
        )

    @property
    def told(self) -> str:
        return "a tier server can't be asked now; try again in a few seconds"
