"""The gateway's collections during a soak, made and deleted by its own API."""

import asyncio
import time
from typing import Any

import orjson

from bench.errors import SoakError
from bench.soak.http import HttpClient, Reply
from bench.soak.workload import collection_files

_BOUNDARY = "soak-boundary"
_INGEST_S = 60.0


async def make_collection(client: HttpClient, seed: int, name: str) -> str:
    """Upload its documents; returns its id.

    Raises:
        SoakError: the gateway refused.
    """
    store = _checked(await _post(client, "/v1/vector_stores", {"name": name}))["id"]
    for file, text in collection_files(seed, name).items():
        uploaded = await client.send(
            "POST",
            "/v1/files",
            _multipart(file, text),
            content_type=f"multipart/form-data; boundary={_BOUNDARY}",
        )
        added = {"file_id": _checked(uploaded)["id"]}
        _checked(await _post(client, f"/v1/vector_stores/{store}/files", added))
    await _ingested(client, store)
    return str(store)


async def delete_collection(client: HttpClient, store: str) -> None:
    """Delete it with its files; its salt will never be used again.

    Raises:
        SoakError: the gateway refused.
    """
    held = _checked(await client.send("GET", f"/v1/vector_stores/{store}/files"))["data"]
    _checked(await client.send("DELETE", f"/v1/vector_stores/{store}"))
    for file in held:
        _checked(await client.send("DELETE", f"/v1/files/{file['id']}"))


async def _ingested(client: HttpClient, store: str) -> None:
    """Until all of its documents were taken in."""
    deadline = time.monotonic() + _INGEST_S
    while True:
        counts = _checked(await client.send("GET", f"/v1/vector_stores/{store}"))["file_counts"]
        if counts["completed"] == counts["total"]:
            return
        if counts["failed"] or time.monotonic() > deadline:
            raise SoakError("the gateway", f"did not ingest a collection's documents: {counts}")
        await asyncio.sleep(0.05)


async def _post(client: HttpClient, path: str, body: dict[str, Any]) -> Reply:
    return await client.send("POST", path, orjson.dumps(body))


def _checked(reply: Reply) -> dict[str, Any]:
    if reply.status != 200:
        raise SoakError("the gateway", f"answered {reply.status}: {reply.body[:200]!r}")
    answer: dict[str, Any] = orjson.loads(reply.body)
    return answer


def _multipart(file: str, text: str) -> bytes:
    disposition = 'Content-Disposition: form-data; name="'
    return (
        f'--{_BOUNDARY}\r\n{disposition}purpose"\r\n\r\nassistants\r\n'
        f'--{_BOUNDARY}\r\n{disposition}file"; filename="{file}"\r\n'
        f"Content-Type: text/plain\r\n\r\n{text}\r\n--{_BOUNDARY}--\r\n"
    ).encode()
