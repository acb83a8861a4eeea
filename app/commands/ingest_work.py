"""Bringing files into a collection over HTTP, one after the other, and waiting for them."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from app.commands.attribute_values import AttributeValue
from app.commands.document_files import DocumentFile
from app.commands.gateway import GatewayAnswerError, NoGatewayError, checked

_FIRST_LOOK_S = 0.02
_LONGEST_LOOK_S = 0.5
_REMOVED = "it was removed from the collection meanwhile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a file: added, replaced, unchanged or failed.

    Attributes:
        chunks: its passages; None where only the sum of all files is told.
    """

    file: DocumentFile
    what: str
    problem: str | None = None
    file_id: str | None = None
    chunks: int | None = None

    @property
    def has_failed(self) -> bool:
        return self.what == "failed"

    def json(self) -> dict[str, Any]:
        """As `--format json` has it."""
        return {
            "file": str(self.file.path),
            "name": self.file.name,
            "id": self.file_id,
            "status": "failed" if self.has_failed else "completed",
            "outcome": self.what,
            "problem": self.problem,
            "chunks": self.chunks,
            "unchanged": self.what == "unchanged",
        }


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a sync did beside the files that were sent."""

    removed: list[str]
    embedded_chunks: int = 0
    reused_chunks: int = 0


class Watcher(Protocol):
    """Is told how far the work has come."""

    def working(self, name: str, done_chunks: int, total_chunks: int | None) -> None: ...
    def waits(self, name: str, problem: str) -> None: ...
    def ended(self, outcome: Outcome) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What all files are given; None keeps what they have."""

    attributes: Mapping[str, AttributeValue] | None
    access: Sequence[str] | None

    def fields(self) -> dict[str, Any]:
        """The fields of a request that adds a file."""
        fields: dict[str, Any] = {}
        if self.attributes is not None:
            fields["attributes"] = dict(self.attributes)
        if self.access is not None:
            fields["foreword"] = {"access": list(self.access)}
        return fields


def collection_id(client: httpx.Client, name: str) -> str:
    """The id of the collection of that name, made where there is none; or of that id.

    Raises:
        GatewayAnswerError: there is none with that id, or several have the name.
    """
    if name.startswith("vs_"):
        return str(checked(client.get(f"/v1/vector_stores/{name}")).json()["id"])
    found = checked(client.get("/v1/vector_stores", params={"name": name})).json()["data"]
    if len(found) > 1:
        ids = ", ".join(store["id"] for store in found)
        raise GatewayAnswerError(f"several collections are called {name!r}; give an id: {ids}")
    if found:
        return str(found[0]["id"])
    return str(checked(client.post("/v1/vector_stores", json={"name": name})).json()["id"])


def add_files(
    client: httpx.Client,
    store: str,
    files: Sequence[DocumentFile],
    labels: Labels,
    watcher: Watcher,
) -> Iterator[Outcome]:
    """Send all files, then wait for each; outcomes come in the order of the files."""
    sent = [_sent(client, store, file, labels) for file in files]
    for file, answer in zip(files, sent, strict=True):
        outcome = answer if isinstance(answer, Outcome) else _waited(client, file, answer, watcher)
        watcher.ended(outcome)
        yield outcome


def sync_files(
    client: httpx.Client,
    store: str,
    files: Sequence[DocumentFile],
    labels: Labels,
    watcher: Watcher,
    tally: Tally,
) -> Iterator[Outcome]:
    """Send each file under its name: what is there unchanged stays, what changed is replaced."""
    options: dict[str, Any] = {"attributes": labels.attributes, "access": labels.access}
    for file in files:
        watcher.working(file.name, 0, None)
        outcome = _synced(client, store, file, options, tally)
        watcher.ended(outcome)
        yield outcome


def take_out_others(
    client: httpx.Client, store: str, files: Sequence[DocumentFile], tally: Tally
) -> None:
    """Take files of other names out of the collection."""
    options = {"remove_missing": True, "keep": [file.name for file in files]}
    tally.removed += _sync(client, store, options)["removed"]


def _sent(
    client: httpx.Client, store: str, file: DocumentFile, labels: Labels
) -> Outcome | dict[str, Any]:
    """The file as it was taken in, or why it was not."""
    try:
        data = file.path.read_bytes()
        uploaded = checked(
            client.post(
                "/v1/files", data={"purpose": "assistants"}, files={"file": (file.name, data)}
            )
        ).json()
        body = {"file_id": uploaded["id"], **labels.fields()}
        added = checked(client.post(f"/v1/vector_stores/{store}/files", json=body)).json()
    except (OSError, GatewayAnswerError) as error:
        return _failed(file, error)
    assert isinstance(added, dict)
    return added


def _waited(
    client: httpx.Client, file: DocumentFile, added: dict[str, Any], watcher: Watcher
) -> Outcome:
    """What becomes of a file that was taken in."""
    held, pause_s = added, _FIRST_LOOK_S
    try:
        while held["status"] == "in_progress":
            progress = held["foreword"]["progress"] or {}
            watcher.working(file.name, progress.get("done_chunks", 0), progress.get("total_chunks"))
            if problem := progress.get("problem"):
                watcher.waits(file.name, problem)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
            url = f"/v1/vector_stores/{held['vector_store_id']}/files/{held['id']}"
            answer = client.get(url)
            if answer.status_code == httpx.codes.NOT_FOUND:
                return Outcome(file=file, what="failed", problem=_REMOVED, file_id=held["id"])
            held = checked(answer).json()
    except GatewayAnswerError as error:
        return _failed(file, error)
    if held["status"] != "completed":
        told = held["last_error"] or {"message": "it was cancelled meanwhile"}
        return Outcome(file=file, what="failed", problem=told["message"], file_id=held["id"])
    what = "unchanged" if added["foreword"]["unchanged"] else "added"
    chunks = held["foreword"]["chunks"]
    return Outcome(file=file, what=what, file_id=held["id"], chunks=chunks)


def _synced(
    client: httpx.Client,
    store: str,
    file: DocumentFile,
    options: Mapping[str, Any],
    tally: Tally,
) -> Outcome:
    try:
        done = _sync(client, store, options, file=(file.name, file.path.read_bytes()))
    except (OSError, GatewayAnswerError) as error:
        return _failed(file, error)
    tally.embedded_chunks += done["embedded_chunks"]
    tally.reused_chunks += done["reused_chunks"]
    if done["failed"]:
        return Outcome(file=file, what="failed", problem=done["failed"][file.name]["message"])
    [what] = [what for what in ("added", "replaced", "unchanged") if done[what]]
    return Outcome(file=file, what=what, chunks=done["embedded_chunks"] + done["reused_chunks"])


def _sync(
    client: httpx.Client,
    store: str,
    options: Mapping[str, Any],
    *,
    file: tuple[str, bytes] | None = None,
) -> dict[str, Any]:
    parts: list[tuple[str, Any]] = [("options", (None, json.dumps(options)))]
    if file is not None:
        parts.append(("file", file))
    url = f"/foreword/collections/{store}/sync"
    done = checked(client.post(url, files=parts)).json()
    assert isinstance(done, dict)
    return done


def _failed(file: DocumentFile, error: OSError | GatewayAnswerError) -> Outcome:
    if isinstance(error, NoGatewayError):
        raise error
    if isinstance(error, OSError):
        return Outcome(file=file, what="failed", problem=f"can't be read: {error.strerror}")
    return Outcome(file=file, what="failed", problem=error.message)
