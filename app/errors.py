"""What can go wrong in the gateway.

```
GatewayError
├── InvalidRequestError          (param)          the client's request is at fault
│   ├── ModelNotFoundError       (model, known)
│   ├── BodyTooLargeError        (limit_bytes)
│   ├── UnsupportedMediaTypeError (expected)      a body of another kind
│   ├── RefusedFieldError        (field)          steers the engine or another tenant
│   ├── ContextLengthError       (prompt_tokens, completion_tokens, limit)
│   ├── CorpusTooLargeError      (collection, prompt_tokens, limit)
│   └── CorpusRestrictedError    (collection)     not everybody may see all of it
├── EngineError                  (engine)
│   ├── EngineUnreachableError   (problem)
│   ├── EngineTimeoutError       (phase, after_s)
│   ├── EngineResponseError      (status, message)
│   └── EngineProtocolError      (problem)
├── EngineNotReadyError          (engine)
│   └── EngineLeaksError         (evidence)       it serves one tenant's KV to another
├── DatabaseError                (url, problem)
├── HomeError                    (path, problem)
├── InvalidSettingError          (setting, problem)
├── RequestNotFoundError         (request_id, kept_days)
├── ResponseNotFoundError        (response_id)
└── TierServerError              (url, problem)
```
"""

from collections.abc import Sequence
from pathlib import Path


class GatewayError(Exception):
    """Root of the gateway's own errors."""


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


class BodyTooLargeError(InvalidRequestError):
    """The request's body is larger than this deployment takes."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"the body is larger than {limit_bytes:,} bytes; send less, or raise "
            "FOREWORD_GATEWAY__MAX_BODY_BYTES"
        )
        self.limit_bytes = limit_bytes


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
    """Prompt and answer don't fit the model's window."""

    def __init__(self, prompt_tokens: int, completion_tokens: int, limit: int) -> None:
        super().__init__(
            f"the prompt has {prompt_tokens} tokens and {completion_tokens} are reserved for the "
            f"answer, but the model's context is {limit} tokens; shorten the messages or lower "
            "max_tokens"
        )
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens
        self.limit = limit
        self.param = "messages"


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


class EngineTimeoutError(EngineError):
    """The engine was silent for too long; `phase` is connect, first byte or between bytes."""

    def __init__(self, engine: str, phase: str, after_s: float) -> None:
        super().__init__(engine)
        self.phase = phase
        self.after_s = after_s

    def __str__(self) -> str:
        return f"the engine at {self.engine} was silent for {self.after_s:g} s ({self.phase})"


class EngineResponseError(EngineError):
    """The engine answered with an error status."""

    def __init__(self, engine: str, status: int, message: str) -> None:
        super().__init__(engine)
        self.status = status
        self.message = message

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


class EngineNotReadyError(GatewayError):
    """The gateway has not met its engine yet."""

    def __init__(self, engine: str) -> None:
        super().__init__(engine)
        self.engine = engine

    def __str__(self) -> str:
        return f"the engine at {self.engine} is not ready yet; try again in a few seconds"


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


class HomeError(GatewayError):
    """The state folder can't be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path} can't be used: {self.problem}"


class InvalidSettingError(GatewayError):
    """A setting doesn't fit what it is used with."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(setting, problem)
        self.setting = setting
        self.problem = problem

    def __str__(self) -> str:
        return f"FOREWORD_{self.setting.upper().replace('.', '__')}: {self.problem}"


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
    """No response is kept."""

    def __init__(self, response_id: str) -> None:
        super().__init__(response_id)
        self.response_id = response_id

    def __str__(self) -> str:
        return (
            f"there is no response {self.response_id!r}: responses aren't stored yet; keep what "
            "the answer said"
        )


class TierServerError(GatewayError):
    """The tier server didn't do what it was asked; no request depends on it."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, problem)
        self.url = url
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the tier server at {self.url} can't be asked ({self.problem}); check "
            "FOREWORD_TIERS__URL and its log"
        )
