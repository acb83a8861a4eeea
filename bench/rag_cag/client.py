"""A client of one gateway: fills collections, asks with streams, and takes the time."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from bench.errors import GatewayAnswerError

JSONObject = dict[str, Any]

_TIMEOUT_S = 300.0
_INGEST_S = 120.0
_CALM_S = 120.0
_POLL_S = 0.05
_BUSY = ("warming", "building")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One answer, as its client saw it, and what the gateway had said of it beforehand.

    Attributes:
        ttft_s: from sending the request to the first of its text, by the client's clock.
        gateway_s: the same by the gateway's clock, from when it got the request.
        predicted_s: of that, by the policy, from before the request was sent to the engine.
        costs: of every mode, by the policy.
        by_tier: tokens re-used from each tier; None where that wasn't told.
    """

    mode: str
    reason: str
    ttft_s: float
    gateway_s: float | None
    predicted_s: float | None
    costs: Mapping[str, JSONObject]
    prompt_tokens: int
    cached_tokens: int
    by_tier: Mapping[str, int | None]

    @property
    def computed_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    @property
    def loaded_tokens(self) -> int:
        """From the tiers, whichever it was."""
        return self.by_tier.get("storage") or 0


class Gateway:
    """Talks to one gateway; may be used by several threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=_TIMEOUT_S, trust_env=False)

    def close(self) -> None:
        """End its connections."""
        self._http.close()

    def add_collection(self, name: str, documents: Mapping[str, str]) -> str:
        """The id of a new collection, when all of its documents were taken in.

        Raises:
            GatewayAnswerError: the gateway refuses, or takes too long.
        """
        store = str(self._post("/v1/vector_stores", json={"name": name})["id"])
        for file, text in documents.items():
            self._begin(store, file, text)
        self._taken_in(store, name)
        return store

    def add_document(self, store: str, name: str, text: str) -> str:
        """The id of a file that was added, and taken in."""
        file = self._begin(store, name, text)
        self._taken_in(store, name)
        return file

    def files(self, store: str) -> list[str]:
        """Ids of a collection's files, oldest first."""
        told = self._get(f"/v1/vector_stores/{store}/files?limit=100&order=asc")
        return [str(file["id"]) for file in told["data"]]

    def remove_document(self, store: str, file: str) -> None:
        """From its collection, and the file itself."""
        self._read(self._http.delete(f"/v1/vector_stores/{store}/files/{file}"))
        self._read(self._http.delete(f"/v1/files/{file}"))

    def remove_collection(self, store: str) -> None:
        """With the KV of its prompts."""
        self._read(self._http.delete(f"/v1/vector_stores/{store}"))

    def corpus(self, store: str) -> JSONObject:
        """Where a collection stands as a whole; its tokens are counted if they never were."""
        corpus: JSONObject | None = self._get(f"/foreword/collections/{store}")["corpus"]
        if corpus is None:
            raise GatewayAnswerError(self.url, f"it knows nothing of the collection {store}")
        return corpus

    def warm(self, store: str) -> None:
        """Have it warmed, and wait until it is resident."""
        if self.corpus(store)["resident"]:
            return
        self._http.post(f"/foreword/collections/{store}/warm").raise_for_status()
        deadline = time.monotonic() + _TIMEOUT_S
        while not (corpus := self.corpus(store))["resident"]:
            if time.monotonic() > deadline:
                raise GatewayAnswerError(self.url, f"{store} did not get warm: {corpus}")
            time.sleep(_POLL_S)

    def wait_until_calm(self) -> None:
        """Until no corpus is being warmed."""
        deadline = time.monotonic() + _CALM_S
        while True:
            corpora = [one["corpus"] for one in self._get("/foreword/collections")["data"]]
            if not any(c and (c["state"] in _BUSY or c["wanted"]) for c in corpora):
                return
            if time.monotonic() > deadline:
                raise GatewayAnswerError(self.url, "it warms corpora without an end")
            time.sleep(_POLL_S)

    def ask(
        self, store: str, question: str, *, mode: str | None = None, output_tokens: int = 2
    ) -> Asked:
        """One question as a stream.

        Raises:
            GatewayAnswerError: the gateway refuses, or tells less than is needed.
        """
        body = {
            "model": "default",
            "messages": [{"role": "user", "content": question}],
            "max_tokens": output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "foreword": {"collection": store} | ({"mode": mode} if mode else {}),
        }
        began = time.perf_counter()
        first_s, block = None, None
        with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != httpx.codes.OK:
                raise GatewayAnswerError(self.url, response.read().decode())
            for line in response.iter_lines():
                if not line.startswith("data: {"):
                    continue
                part = json.loads(line.removeprefix("data: "))
                if first_s is None and _has_text(part):
                    first_s = time.perf_counter() - began
                block = part.get("foreword") or block
        if block is None or first_s is None or block["cached_tokens"] is None:
            raise GatewayAnswerError(self.url, f"the stream lacks what is measured: {block}")
        return _asked(block, first_s)

    def say(self, text: str) -> None:
        """One request without a collection."""
        messages = [{"role": "user", "content": text}]
        body = {"model": "default", "messages": messages, "max_tokens": 1, "temperature": 0}
        self._post("/v1/chat/completions", json=body)

    def _begin(self, store: str, name: str, text: str) -> str:
        upload = {"file": (name, text.encode())}
        file = self._post("/v1/files", files=upload, data={"purpose": "assistants"})
        self._post(f"/v1/vector_stores/{store}/files", json={"file_id": file["id"]})
        return str(file["id"])

    def _taken_in(self, store: str, what: str) -> None:
        deadline = time.monotonic() + _INGEST_S
        while True:
            counts = self._get(f"/v1/vector_stores/{store}")["file_counts"]
            if counts["completed"] == counts["total"]:
                return
            if counts["failed"] or time.monotonic() > deadline:
                raise GatewayAnswerError(self.url, f"{what!r} was not taken in: {counts}")
            time.sleep(_POLL_S)

    def _get(self, path: str) -> JSONObject:
        return self._read(self._http.get(path))

    def _post(self, path: str, **content: Any) -> JSONObject:
        return self._read(self._http.post(path, **content))

    def _read(self, response: httpx.Response) -> JSONObject:
        if not response.is_success:
            raise GatewayAnswerError(self.url, response.text)
        made: JSONObject = response.json()
        return made


def _has_text(part: JSONObject) -> bool:
    return any(choice["delta"].get("content") for choice in part["choices"])


def _asked(block: JSONObject, ttft_s: float) -> Asked:
    return Asked(
        mode=block["mode"],
        reason=block["mode_reason"],
        ttft_s=ttft_s,
        gateway_s=block["ttft_s"],
        predicted_s=block["predicted_ttft_s"],
        costs=block["mode_costs"],
        prompt_tokens=block["prompt_tokens"],
        cached_tokens=block["cached_tokens"],
        by_tier=block["cached_by_tier"],
    )
