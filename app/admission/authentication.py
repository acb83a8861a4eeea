"""Who sent a request, settled before anything else is done for it."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.admission.keyring import KeyRing
from app.callers import Caller, Role
from app.errors import AuthenticationError, PermissionDeniedError
from app.refusing import error_answer

# Probes ask these without a key; they then learn a status and no more.
_FOR_ANYBODY = frozenset({"/livez", "/readyz"})
# The pages' own files hold nothing of anybody's; what they ask for then needs a key.
_PAGES = "/ui"
_FOR_MONITORS = _FOR_ANYBODY | {"/metrics"}
_NOBODY = Caller(tenant="", role=Role.USER)


class Authentication:
    """Puts the caller into a request's state, or refuses the request.

    A ticket that the request was let in with is closed when it has ended.

    Args:
        standing: headers that say how a caller stands with its limits.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Callable[[], KeyRing],
        standing: Callable[[Caller], Mapping[str, str]],
    ) -> None:
        self._app = app
        self._keys = keys
        self._standing = standing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            caller = authenticate(scope, self._keys())
        except (AuthenticationError, PermissionDeniedError) as error:
            await error_answer(error)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, self._limits_told(scope, caller, send))
        finally:
            ticket = scope["state"].get("ticket")
            if ticket is not None:
                ticket.close()

    def _limits_told(self, scope: Scope, caller: Caller, send: Send) -> Send:
        """Sends the answers to model requests with how the tenant stands with its limits."""
        limits = caller.limits
        if limits.requests_per_min is None and limits.tokens_per_min is None:
            return send

        def told(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start" and "ticket" in scope["state"]:
                standing = self._standing(caller).items()
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in standing),
                ]
            return send(message)

        return told


def authenticate(scope: Scope, keys: KeyRing) -> Caller:
    """The caller of a request; `caller_of` finds it from now on.

    Raises:
        AuthenticationError: no key, or one that doesn't hold.
        PermissionDeniedError: a monitor's key, used for something else.
    """
    as_of = keys.changes  # before: a thread may take what was changed in between
    caller = _recognised(scope, keys)
    if caller.role is Role.MONITOR and not _is_for_monitors(scope):
        raise PermissionDeniedError(caller.role.value, Role.USER.value)
    state = scope.setdefault("state", {})
    state["caller"], state["keys_as_of"] = caller, as_of
    return caller


def _recognised(scope: Scope, keys: KeyRing) -> Caller:
    authorization = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            if authorization is not None:
                raise AuthenticationError("two Authorization headers were sent")
            authorization = value
    try:
        return keys.authenticate(authorization)
    except AuthenticationError:
        path = scope["path"]
        if path in _FOR_ANYBODY or path in ("/", _PAGES) or path.startswith(f"{_PAGES}/"):
            return _NOBODY
        raise


def _is_for_monitors(scope: Scope) -> bool:
    return scope["path"] in _FOR_MONITORS and scope["method"] in ("GET", "HEAD")
