"""A client of one gateway: asks, and reads what was said in the response and in the ledger."""

import json
import time
from dataclasses import dataclass
from typing import Any

import httpx

from bench.errors import GatewayAnswerError
from bench.verdicts.cases import JSONObject, Question

_TIMEOUT_S = 120.0
_INGEST_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The text of an answer, and its `foreword` block."""

    text: str
    block: JSONObject

    @property
    def request_id(self) -> str:
        """What the ledger calls it."""
        return str(self.block["request_id"])


class GatewayClient:
    """Talks to one gateway; may be used by several threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=_TIMEOUT_S, trust_env=False)

    def close(self) -> None:
        """End its connections."""
        self._http.close()

    def ask(self, question: Question) -> Answer:
        """Raises GatewayAnswerError: the gateway refuses."""
        body = _body(question)
        if question.stream:
            return self._streamed(body)
        answer = self._post("/v1/chat/completions", json=body)
        text = answer["choices"][0]["message"]["content"] or ""
        return Answer(text=text, block=answer["foreword"])

    def row(self, request_id: str) -> JSONObject:
        """The ledger's row of a request, as `explain` gives it."""
        return self._read(self._http.get(f"/foreword/explain/{request_id}"))

    def add_collection(self, name: str, text: str) -> None:
        """A collection of one document."""
        file = {"file": (f"{name}.txt", text.encode())}
        uploaded = self._post("/v1/files", files=file, data={"purpose": "assistants"})
        body = {"name": name, "file_ids": [uploaded["id"]]}
        store = f"/v1/vector_stores/{self._post('/v1/vector_stores', json=body)['id']}"
        deadline = time.monotonic() + _INGEST_S
        while self._read(self._http.get(store))["file_counts"]["completed"] == 0:
            if time.monotonic() > deadline:
                raise GatewayAnswerError(self.url, f"{name!r} was not ingested in {_INGEST_S:g} s")
            time.sleep(0.05)

    def _streamed(self, body: JSONObject) -> Answer:
        texts: list[str] = []
        block: JSONObject | None = None
        with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != httpx.codes.OK:
                raise GatewayAnswerError(self.url, response.read().decode())
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    part = json.loads(line.removeprefix("data: "))
                    block = part.get("foreword") or block
                    texts += [choice["delta"].get("content") or "" for choice in part["choices"]]
        if block is None:
            raise GatewayAnswerError(self.url, "the stream has no `foreword` block")
        return Answer(text="".join(texts), block=block)

    def _post(self, path: str, **content: Any) -> JSONObject:
        return self._read(self._http.post(path, **content))

    def _read(self, response: httpx.Response) -> JSONObject:
        if response.status_code != httpx.codes.OK:
            raise GatewayAnswerError(self.url, response.text)
        made: JSONObject = response.json()
        return made


def _body(question: Question) -> JSONObject:
    options: JSONObject = {"template": question.template, "variables": dict(question.variables)}
    if question.collection is not None:
        options |= {"collection": question.collection, "mode": "cag"}
    return {
        "model": "default",
        "messages": list(question.messages),
        "max_tokens": question.output_tokens,
        "temperature": 0,
        "stream": question.stream,
        "foreword": options,
        **({"stream_options": {"include_usage": True}} if question.stream else {}),
        **({"tools": list(question.tools)} if question.tools else {}),
    }
