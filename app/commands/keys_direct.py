"""`foreword keys` beside the gateway: the same answers, from the database itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from app.admission.direct import open_store
from app.admission.keys import NewKey
from app.admission.store import OPERATOR, AdmissionStore
from app.callers import Priority
from app.commands.gateway import GatewayAnswerError, NoGatewayError
from app.errors import DatabaseError, GatewayError, HomeError, InvalidSettingError
from app.routes.bodies import checked_body
from app.routes.keys import KeyCreate, KeyRotate, created_object, key_object
from app.stack.paths import resolve
from app.starting import read_settings


class DirectKeys:
    """Answers what the gateway's routes would."""

    def __init__(self, store: AdmissionStore) -> None:
        self._store = store

    @classmethod
    @contextmanager
    def opened(cls, home: Path) -> Iterator["DirectKeys"]:
        """The keys in a home folder, or in the database that the settings name.

        Raises:
            click.ClickException: they can't be read, or something was refused.
        """
        try:
            url = read_settings().database.url
            with open_store(resolve(home), url.get_secret_value() if url else None) as store:
                yield cls(store)
        except (DatabaseError, HomeError, InvalidSettingError) as error:
            raise NoGatewayError(str(error)) from error
        except GatewayError as error:
            raise GatewayAnswerError(str(error)) from error

    def ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """What the gateway would answer to this."""
        parts = urlsplit(path)
        names = [unquote(name) for name in parts.path.split("/")[3:]]
        match method, names:
            case "POST", []:
                return self._create(checked_body(body, KeyCreate))
            case "GET", []:
                [tenant] = parse_qs(parts.query).get("tenant", [None])
                found = self._store.all_keys(tenant=tenant)
                return {"object": "list", "data": [key_object(record) for record in found]}
            case "POST", [key_id, "rotate"]:
                return self._rotate(key_id, checked_body(body, KeyRotate))
            case "DELETE", [key_id]:
                last = "last_admin" in parse_qs(parts.query)
                return key_object(self._store.revoke(key_id, by=OPERATOR, last_admin=last))
        raise AssertionError(f"{method} {path} is none of the commands'")

    def _create(self, body: KeyCreate) -> dict[str, Any]:
        values = body.model_dump() | {"priority": Priority.of(body.priority)}
        return created_object(self._store.create(NewKey(**values), by=OPERATOR))

    def _rotate(self, key_id: str, body: KeyRotate) -> dict[str, Any]:
        made = self._store.rotate(
            key_id, grace_s=body.grace_s, expires_s=body.expires_s, by=OPERATOR
        )
        return created_object(made)
